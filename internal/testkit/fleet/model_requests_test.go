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
	owner, id string   // id of the sandbox; empty: the request uses the owner's name
	call, ret int64    // times of the call and the return, in ns
	code      api.Code // error code; empty: no error
	made      bool     // whether the sandbox is new
	done      bool     // whether the delete was answered after the sandbox was gone
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

// short returns the end of an id, which is enough to distinguish the ids of one owner.
func short(id string) string { return id[max(0, len(id)-4):] }

// satisfied reports whether the record in an answer satisfies the wish of the request.
func (r request) satisfied() bool {
	want := sandbox.WantRunning
	switch r.verb {
	case "stop":
		want = sandbox.WantStopped
	case "terminate":
		want = sandbox.WantGone
	}
	return want.Satisfied(sandbox.State(r.row.state))
}

// script holds the steps of one owner's requests.
type script struct {
	history []request
	steps   []*step
}

// step is a move of a script, with the request that made it.
type step struct {
	move
	of        *script
	by        request
	call, ret int64
	rest      []move // this move and the request's moves after it
	number    int
	needs     bits    // the steps that must be made before it
	twins     []*step // if one of these can be made now, this step is not tried
}

// moves adds the moves of one request, which happened in this order between call and ret.
func (s *script) moves(r request, ret int64, moves ...move) {
	for i, m := range moves {
		on := &step{move: m, of: s, by: r, call: r.call, ret: ret, rest: moves[i:], number: len(s.steps)}
		if i > 0 {
			on.needs.add(on.number - 1)
		}
		s.steps = append(s.steps, on)
	}
}

// order finds the orders that do not have to be tried, and sets needs and twins.
//
// Twins are steps of two requests whose remaining moves are equal. If both steps are possible, it is enough to try the
// one that must end first: in an order with the other one first, the two requests can swap their remaining moves without
// a visible difference.
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

// precedes reports whether a move must come before another move about the same sandbox, because a sandbox only ages. It
// returns false if one of the moves may have had no effect.
func (m move) precedes(o move) bool {
	_, last := m.ages()
	first, _ := o.ages()
	return m.id != "" && m.id == o.id && !m.maybe && !o.maybe && last < first
}

// ages returns the youngest and the oldest age that a sandbox can have after a move.
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
	return going, gone // after a delete, or an answer that the sandbox is deleted
}

// readOnly reports whether a move only reads.
func (m move) readOnly() bool {
	return slices.Contains([]string{"look", "none", "deleted", "gone"}, m.what)
}

var wishes = map[string]string{"ensure": "running", "start": "running", "stop": "stopped", "terminate": "gone"}

func (s *script) add(r request) {
	wish := wishes[r.verb]
	look := move{what: "look", id: r.row.id, row: r.row}
	switch {
	case r.code == api.CodeNotFound && r.id == "":
		s.moves(r, r.ret, move{what: "none"})
	case r.code == api.CodeNotFound: // impossible: a server never forgets an id
		s.moves(r, r.ret, move{what: "never"})
	case r.code == api.CodeDeleted && r.id != "":
		s.failed(r, wish) // its effect may have come before the delete
		s.moves(r, r.ret, move{what: map[bool]string{true: "gone", false: "deleted"}[r.verb == "get" || r.verb == "delete"], id: r.id})
	case r.code != "":
		s.failed(r, wish)
	case r.verb != "get" && r.verb != "delete" && !r.satisfied():
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
		s.moves(r, r.ret, append(s.restartMoves(r), move{what: "make", id: r.row.id}, look)...)
	default:
		s.moves(r, r.ret, append(s.restartMoves(r), move{what: "wish", id: r.row.id, want: wish}, look)...)
	}
}

// failed adds the moves that a request may have made before it failed. For some error codes the server has finished by
// then. After any other error the request may still take effect later.
func (s *script) failed(r request, wish string) {
	ret := int64(math.MaxInt64)
	switch r.code {
	case api.CodeBusy, api.CodeDriverUnreachable, api.CodeCreateFailed, api.CodeNotRunning, api.CodeDriverRefused, api.CodeDeleted, api.CodeDeleting:
		ret = r.ret
	}
	switch r.verb {
	case "get":
	case "ensure":
		s.moves(r, ret, append(s.restartMoves(r), move{what: "ensure", want: wish, maybe: true})...)
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

// restartMoves returns the moves that an ensure may make before its other moves: for each sandbox of the owner that is
// deleted at the same time, it may start again.
func (s *script) restartMoves(r request) (moves []move) {
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

// scriptOf converts the history of one owner, sorted by call, into steps.
func scriptOf(history []request) *script {
	s := &script{history: history}
	for _, r := range history {
		s.add(r)
	}
	s.order()
	return s
}

// movesOf converts the history of one owner into operations for porcupine.
func movesOf(history []request) (moves []porcupine.Operation) {
	for _, m := range scriptOf(history).steps {
		moves = append(moves, porcupine.Operation{ClientId: m.by.client, Input: m, Call: m.call, Output: m.by, Return: m.ret})
	}
	return moves
}
