package fleet_test

import (
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"
	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// request is one call of a client and its answer.
type request struct {
	client    int
	verb      string
	owner, id string // id: the sandbox asked about; empty: by the owner's name
	call, ret int64
	code      api.Code // of the problem; empty: it went well
	made      bool     // it is new
	done      bool     // the delete was answered when nothing was left
	row       seen
}

func (r request) String() string {
	out := fmt.Sprintf("%8.1f-%8.1f ms client %2d: %s", float64(r.call)/1e6, float64(r.ret)/1e6, r.client, r.verb)
	if r.id != "" {
		out += " of " + short(r.id)
	}
	switch {
	case r.code != "":
		return out + ": " + string(r.code)
	case r.verb == "delete":
		return out + ": done"
	case r.made:
		out += ": made"
	}
	return out + ": " + r.row.String()
}

func (s seen) String() string {
	out := fmt.Sprintf("%s/%d %s", short(s.id), s.incarnation, s.state)
	if s.want != s.state {
		out += " want " + s.want
	}
	if s.deleted {
		out += " deleted"
	}
	if !s.consistent() {
		out += " with instance " + s.instance
	}
	return out
}

func (m move) String() string {
	switch m.what {
	case "look":
		return fmt.Sprintf("look: %v", m.row)
	case "wish":
		return fmt.Sprintf("wish %s of %s", m.want, short(m.id))
	}
	return m.what + " " + short(m.id)
}

// short is the end of an id, enough to tell those of one owner apart.
func short(id string) string { return id[max(0, len(id)-4):] }

// kept says whether a good answer says what was asked for.
func (r request) kept() bool {
	want := sandbox.WantRunning
	switch r.verb {
	case "stop":
		want = sandbox.WantStopped
	case "terminate":
		want = sandbox.WantGone
	}
	return want.Satisfied(sandbox.State(r.row.state))
}

// script is the steps of one owner's requests.
type script struct {
	history []request
	steps   []*step
}

// step is a move in its place.
type step struct {
	move
	of        *script
	by        request
	call, ret int64
	rest      []move // this one and what the request did after it
	number    int
	needs     bits    // the steps that came before it
	twins     []*step // if one of these can be made now, this one is not tried
}

// moves adds what one request did, in this order between call and ret.
func (s *script) moves(r request, ret int64, moves ...move) {
	for i, m := range moves {
		on := &step{move: m, of: s, by: r, call: r.call, ret: ret, rest: moves[i:], number: len(s.steps)}
		if i > 0 {
			on.needs.add(on.number - 1)
		}
		s.steps = append(s.steps, on)
	}
}

// order finds out which orders need not be tried.
//
// Twins are steps of two requests that from there on did the same. When both can be made it is enough to try
// the one that had to be over first: where an order has it the other way round, the two requests can take
// each other's places, move by move, and nobody sees a difference.
func (s *script) order() {
	for _, m := range s.steps {
		for _, o := range s.steps {
			if o.ret < m.call || o.precedes(m.move) {
				m.needs.add(o.number)
			}
			sooner := o.ret < m.ret || o.ret == m.ret && o.number < m.number
			if sooner && slices.Equal(o.rest, m.rest) {
				m.twins = append(m.twins, o)
			}
		}
	}
}

// precedes says whether a move came before another one of its sandbox in every order that fits, because no
// sandbox grows younger. Of a move that may have had no effect nothing is known.
func (m move) precedes(o move) bool {
	_, last := m.ages()
	first, _ := o.ages()
	return m.id != "" && m.id == o.id && !m.maybe && !o.maybe && last < first
}

// ages are how old a sandbox can be after a move, at least and at most.
func (m move) ages() (first, last int) {
	const made, used, going, gone = 0, 1, 2, 3
	switch {
	case m.what == "make":
		return made, made
	case m.what == "wish", m.what == "look" && !m.row.deleted:
		return used, used
	case m.what == "look":
		return going, going
	case m.what == "gone":
		return gone, gone
	}
	return going, gone // after a delete, or when told of one: how long ago it was is not said
}

// looks says whether a move only tells what there is.
func (m move) looks() bool {
	return slices.Contains([]string{"look", "none", "deleted", "gone"}, m.what)
}

var wishes = map[string]string{"ensure": "running", "start": "running", "stop": "stopped", "terminate": "gone"}

func (s *script) add(r request) {
	wish := wishes[r.verb]
	look := move{what: "look", id: r.row.id, row: r.row}
	switch {
	case r.code == api.CodeNotFound && r.id == "":
		s.moves(r, r.ret, move{what: "none"})
	case r.code == api.CodeNotFound: // an id that was given out is never unknown
		s.moves(r, r.ret, move{what: "never"})
	case r.code == api.CodeDeleted && r.id != "":
		s.failed(r, wish) // it may have come before the delete that overtook it
		s.moves(r, r.ret, move{what: map[bool]string{true: "gone", false: "deleted"}[r.verb == "get" || r.verb == "delete"], id: r.id})
	case r.code != "":
		s.failed(r, wish)
	case r.verb != "get" && r.verb != "delete" && !r.kept():
		s.moves(r, r.ret, move{what: "never"})
	case r.verb == "get":
		s.moves(r, r.ret, look)
	case r.verb == "delete" && r.done:
		s.moves(r, r.ret, move{what: "delete", id: r.id}, move{what: "gone", id: r.id})
	case r.verb == "delete":
		s.moves(r, r.ret, move{what: "delete", id: r.id})
	case r.verb == "restart":
		s.moves(r, r.ret, move{what: "wish", id: r.id, want: "stopped"}, move{what: "wish", id: r.id, want: "running"}, look)
	case r.made:
		s.moves(r, r.ret, append(s.overtaken(r), move{what: "make", id: r.row.id}, look)...)
	default:
		s.moves(r, r.ret, append(s.overtaken(r), move{what: "wish", id: r.row.id, want: wish}, look)...)
	}
}

// failed adds what a request may have done before it failed. Of some problems it is known that the server
// had nothing more to do by then; after all others it may still take effect.
func (s *script) failed(r request, wish string) {
	ret := int64(math.MaxInt64)
	switch r.code {
	case api.CodeBusy, api.CodeDriverUnreachable, api.CodeCreateFailed, api.CodeNotRunning, api.CodeDriverRefused, api.CodeDeleted, api.CodeDeleting:
		ret = r.ret
	}
	switch r.verb {
	case "get":
	case "ensure":
		s.moves(r, ret, append(s.overtaken(r), move{what: "ensure", want: wish, maybe: true})...)
	case "delete":
		if r.code != api.CodeDeleted {
			s.moves(r, ret, move{what: "delete", id: r.id, maybe: true})
		}
	case "restart":
		s.moves(r, ret, move{what: "wish", id: r.id, want: "stopped", maybe: true}, move{what: "wish", id: r.id, want: "running", maybe: true})
	default:
		s.moves(r, ret, move{what: "wish", id: r.id, want: wish, maybe: true})
	}
}

// overtaken is what an ensure does before its other moves when sandboxes of the owner are deleted under it:
// those are not what was asked for, and each time it begins again.
func (s *script) overtaken(r request) (moves []move) {
	var ids []string
	for _, o := range s.history {
		under := o.verb == "delete" && o.code != api.CodeDeleted && o.id != r.row.id && o.call <= r.ret && r.call <= o.ret
		if r.verb == "ensure" && under && !slices.Contains(ids, o.id) {
			ids = append(ids, o.id)
			moves = append(moves, move{what: "ensure", want: "running", maybe: true})
		}
	}
	return moves
}

// scriptOf turns the history of one owner, in the order of its calls, into steps.
func scriptOf(history []request) *script {
	s := &script{history: history}
	for _, r := range history {
		s.add(r)
	}
	s.order()
	return s
}

// movesOf is the history of one owner as porcupine takes it.
func movesOf(history []request) (moves []porcupine.Operation) {
	for _, m := range scriptOf(history).steps {
		moves = append(moves, porcupine.Operation{ClientId: m.by.client, Input: m, Call: m.call, Output: m.by, Return: m.ret})
	}
	return moves
}
