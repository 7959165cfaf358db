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

// script is the moves of one owner's requests.
type script struct {
	history []request
	moves   []porcupine.Operation
	runs    []run
}

// run is moves that were made one after the other.
type run struct {
	call, ret int64
	first     int // number of the first
	moves     []move
}

// steps adds the moves of one request, which happened in this order between call and ret.
func (s *script) steps(r request, ret int64, moves ...move) {
	on := run{r.call, ret, len(s.moves), moves}
	for i, m := range moves {
		m.number = on.first + i
		if i > 0 {
			m.needs.add(m.number - 1)
		}
		for _, o := range s.runs {
			if on.follows(o) {
				m.needs.add(o.first + i)
			}
		}
		s.moves = append(s.moves, porcupine.Operation{ClientId: r.client, Input: m, Call: r.call, Output: r, Return: ret})
	}
	s.runs = append(s.runs, on)
}

// follows says whether a run may be taken to have come after another: they are the same but for their
// times, and the other was both called and answered first. Exchanging two such runs, move by move, makes no
// difference to anybody, so that only one of the orders need be tried.
func (r run) follows(o run) bool {
	return o.call <= r.call && o.ret <= r.ret && slices.Equal(o.moves, r.moves)
}

func (s *script) add(r request) {
	wish := map[string]string{"ensure": "running", "start": "running", "stop": "stopped", "terminate": "gone"}[r.verb]
	look := move{what: "look", row: r.row}
	switch {
	case r.code == api.CodeNotFound && r.id == "":
		s.steps(r, r.ret, move{what: "none"})
	case r.code == api.CodeNotFound: // an id that was given out is never unknown
		s.steps(r, r.ret, move{what: "never"})
	case r.code == api.CodeDeleted && r.id != "":
		s.failed(r, wish) // it may have come before the delete that overtook it
		s.steps(r, r.ret, move{what: map[bool]string{true: "gone", false: "deleted"}[r.verb == "get" || r.verb == "delete"], id: r.id})
	case r.code != "":
		s.failed(r, wish)
	case r.verb != "get" && r.verb != "delete" && !r.kept():
		s.steps(r, r.ret, move{what: "never"})
	case r.verb == "get":
		s.steps(r, r.ret, look)
	case r.verb == "delete" && r.done:
		s.steps(r, r.ret, move{what: "delete", id: r.id}, move{what: "gone", id: r.id})
	case r.verb == "delete":
		s.steps(r, r.ret, move{what: "delete", id: r.id})
	case r.verb == "restart":
		s.steps(r, r.ret, move{what: "wish", id: r.id, want: "stopped"}, move{what: "wish", id: r.id, want: "running"}, look)
	case r.made:
		s.steps(r, r.ret, append(s.overtaken(r), move{what: "make", id: r.row.id}, look)...)
	default:
		s.steps(r, r.ret, append(s.overtaken(r), move{what: "wish", id: r.row.id, want: wish}, look)...)
	}
}

// failed adds what a request may have done before it failed. Of some problems it is known that the server
// had nothing more to do by then; after all others it may still take effect.
func (s *script) failed(r request, wish string) {
	ret := int64(math.MaxInt64)
	switch r.code {
	case api.CodeBusy, api.CodeDriverUnreachable, api.CodeCreateFailed, api.CodeNotRunning, api.CodeDriverRefused, api.CodeDeleted:
		ret = r.ret
	}
	switch r.verb {
	case "get":
	case "ensure":
		s.steps(r, ret, append(s.overtaken(r), move{what: "ensure", want: wish, maybe: true})...)
	case "delete":
		if r.code != api.CodeDeleted {
			s.steps(r, ret, move{what: "delete", id: r.id, maybe: true})
		}
	case "restart":
		s.steps(r, ret, move{what: "wish", id: r.id, want: "stopped", maybe: true}, move{what: "wish", id: r.id, want: "running", maybe: true})
	default:
		s.steps(r, ret, move{what: "wish", id: r.id, want: wish, maybe: true})
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

// movesOf turns the history of one owner, in the order of its calls, into moves.
func movesOf(history []request) []porcupine.Operation {
	s := script{history: history}
	for _, r := range history {
		if !slices.ContainsFunc(history, r.repeats) {
			s.add(r)
		}
	}
	return s.moves
}

// repeats says whether a get adds nothing to another one: it was told the same, and whenever that was so for
// the other it was so for this one, too.
func (r request) repeats(o request) bool {
	told := r
	told.client, told.call, told.ret = o.client, o.call, o.ret
	within := r.call <= o.call && o.ret <= r.ret && (r.call < o.call || o.ret < r.ret)
	return r.verb == "get" && told == o && within
}
