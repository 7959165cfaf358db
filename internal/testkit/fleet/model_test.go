package fleet_test

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/anishathalye/porcupine"
	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// The model says what callers of one owner may see, whoever they are and whichever server they ask.
//
// A request is not one step. It records a wish (to run, to stop, to go), at some moment after it was sent;
// the servers then move the sandbox by themselves; and its answer is the record as it was at some later
// moment, before the answer arrived. So every request becomes one or more moves, each of which happened at
// one moment between call and return, and in their order: porcupine looks for an order of all moves of all
// requests in which each could happen.
//
// Exact in the model: which id the owner's name stands for, who made it, what is wanted, and that deleted
// is for ever. A sandbox goes only where its wish leads: what was begun for an older one may be finished, but
// nothing is begun for a wish that is no more. A request whose answer was lost may have had its effect at any
// time until the end.

// row is one sandbox that was not deleted.
type row struct {
	id          string // empty: made by a request whose answer nobody got, and not seen since
	want, state string
	incarnation int64
	more        bool // or any later one
}

// world is what there is of one owner. It is comparable.
type world struct {
	is    bool // the owner has a sandbox
	row   row
	ended string // ids of deleted sandboxes, sorted, each with a mark: "-" on its way, "+" gone
}

// move is one step of a request.
type move struct {
	what  string // see do
	id    string // of the sandbox it is about; empty: whichever the name stands for
	want  string
	row   seen
	maybe bool // it may have had no effect

	number int
	needs  bits // the moves that came before it
}

// seen is a record as an answer showed it.
type seen struct {
	id, state, want, instance string
	incarnation               int64
	deleted                   bool
}

func (w world) do(m move) []world {
	switch m.what {
	case "make": // a sandbox that was not there
		if w.is || m.id != "" && w.mark(m.id) != "" {
			return nil
		}
		w.is, w.row = true, row{id: m.id, want: "running", state: "pending"}
		return []world{w}
	case "wish":
		return w.wish(m)
	case "ensure": // either, and nobody knows which sandbox that was
		if !w.is {
			m.what = "make"
			return w.do(m)
		}
		return w.wish(m)
	case "delete":
		if w, ok := w.bind(m.id); ok {
			w.is, w.row = false, row{}
			return []world{w.with(m.id, "-")}
		}
		if w.mark(m.id) != "" {
			return []world{w} // once is enough
		}
		return nil
	case "look":
		return w.look(m.row)
	case "never":
		return nil
	case "none": // the name stands for nothing
		if w.is {
			return nil
		}
		return []world{w}
	case "deleted":
		if w.mark(m.id) == "" {
			return nil
		}
		return []world{w}
	case "gone":
		if w.mark(m.id) == "" {
			return nil
		}
		return []world{w.with(m.id, "+")}
	}
	panic(m.what)
}

// wish records what is wanted of a sandbox; of a deleted one nothing is.
func (w world) wish(m move) (next []world) {
	if m.id != "" && w.mark(m.id) != "" {
		return nil
	}
	w, ok := w.bind(m.id)
	if !ok {
		return nil
	}
	for _, r := range w.row.onward() {
		w.row = r
		w.row.want = m.want
		next = append(next, w)
	}
	return next
}

// bind finds the owner's sandbox by its id. One whose id nobody knew yet may be it.
func (w world) bind(id string) (world, bool) {
	if !w.is || id != "" && w.mark(id) != "" {
		return w, false
	}
	if w.row.id == "" {
		w.row.id = id
	}
	return w, id == "" || w.row.id == id
}

// look is an answer that shows the record.
func (w world) look(s seen) (next []world) {
	if s.deleted {
		if w.mark(s.id) == "" || s.want != "gone" {
			return nil
		}
		return []world{w}
	}
	w, ok := w.bind(s.id)
	if !ok || !s.consistent() {
		return nil
	}
	for _, r := range w.row.onward() {
		if r, ok := r.looks(s); ok {
			w.row = r
			next = append(next, w)
		}
	}
	return next
}

// consistent looks at the record alone: one that runs has the instance of its incarnation.
func (s seen) consistent() bool {
	return s.state != "running" || strings.HasPrefix(s.instance, fmt.Sprintf("fake-%s.%d.", s.id, s.incarnation))
}

// mark is what became of a deleted sandbox, or empty for one that was not deleted.
func (w world) mark(id string) string {
	at := strings.Index(w.ended, id)
	if at < 0 {
		return ""
	}
	return w.ended[at+len(id) : at+len(id)+1]
}

func (w world) with(id, mark string) world {
	ended := strings.FieldsFunc(w.ended, func(r rune) bool { return r == ' ' })
	ended = slices.DeleteFunc(ended, func(e string) bool { return strings.HasPrefix(e, id) })
	ended = append(ended, id+mark)
	slices.Sort(ended)
	w.ended = strings.Join(ended, " ")
	return w
}

// turn is how the servers may change a sandbox by themselves.
type turn struct {
	from, to string
	born     bool // under a new incarnation
}

// begins are the turns that a wish leads to, as long as it is the last one.
var begins = map[string][]turn{
	"running": {
		{"pending", "creating", true}, {"creating", "creating", true}, {"terminated", "creating", true}, {"error", "creating", true},
		{"stopped", "starting", false}, {"error", "starting", false},
	},
	"stopped": {
		{"running", "stopping", false}, {"starting", "stopping", false}, {"error", "stopping", false},
	},
	"gone": {
		{"pending", "terminating", false}, {"creating", "terminating", false}, {"running", "terminating", false},
		{"stopping", "terminating", false}, {"stopped", "terminating", false}, {"starting", "terminating", false},
		{"error", "terminating", false},
	},
}

// ends are the turns that finish what was begun, whatever is wanted by then, or say what was found after a
// server's end: that nothing was made, or that it is stopped.
var ends = []turn{
	{"creating", "running", false}, {"creating", "error", false}, {"starting", "running", false}, {"starting", "error", false},
	{"stopping", "stopped", false}, {"terminating", "terminated", false},
	{"creating", "terminated", false}, {"error", "terminated", false}, {"starting", "stopped", false}, {"error", "stopped", false},
}

// onward is every row that the servers may have made of r by now.
func (r row) onward() (found []row) {
	for _, c := range courses(r.want, r.state) {
		on := r
		on.state = c.state
		on.incarnation += c.born
		on.more = r.more || c.born == mostBorn
		found = append(found, on)
	}
	return found
}

// looks says whether the row may look as s does, and what is known of it then.
func (r row) looks(s seen) (row, bool) {
	if s.state != r.state || s.want != r.want || s.incarnation < r.incarnation || s.incarnation > r.incarnation && !r.more {
		return r, false
	}
	r.incarnation, r.more = s.incarnation, false
	return r, true
}

// course is how far the servers may bring a sandbox.
type course struct {
	state string
	born  int64 // incarnations begun on the way, mostBorn of them standing for more
}

const mostBorn = 2

var known sync.Map // of want and state to []course

func courses(want, state string) []course {
	key := want + " " + state
	if found, ok := known.Load(key); ok {
		return found.([]course)
	}
	found := []course{{state, 0}}
	for i := 0; i < len(found); i++ {
		for _, t := range slices.Concat(begins[want], ends) {
			next := course{t.to, found[i].born}
			if t.born {
				next.born = min(next.born+1, mostBorn)
			}
			if t.from == found[i].state && !slices.Contains(found, next) {
				found = append(found, next)
			}
		}
	}
	known.Store(key, found)
	return found
}

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

// kept says whether a good answer says what was asked for: that the sandbox runs, or, of a stop and a
// terminate, that it is where it is wanted by now.
func (r request) kept() bool {
	switch r.verb {
	case "stop", "terminate":
		return sandbox.Want(r.row.want).Satisfied(sandbox.State(r.row.state))
	}
	return r.row.state == "running"
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
	for _, o := range s.history {
		if r.verb == "ensure" && o.verb == "delete" && o.code != api.CodeDeleted && o.id != r.row.id && o.call <= r.ret && r.call <= o.ret {
			moves = append(moves, move{what: "ensure", want: "running", maybe: true})
		}
	}
	return moves
}

// movesOf turns the history of one owner, in the order of its calls, into moves.
func movesOf(history []request) []porcupine.Operation {
	s := script{history: history}
	for _, r := range history {
		s.add(r)
	}
	return s.moves
}

// worlds is what porcupine takes for a state: all that there may be by now, as far as anybody has seen.
type worlds struct {
	may  []world
	done bits // the moves made so far
}

// bits is a set of moves, by their numbers.
type bits [mostMoves / 64]uint64

const mostMoves = 1024 // in the history of one owner

func (b *bits) add(n int) { b[n/64] |= 1 << (n % 64) }
func (b bits) has(o bits) bool {
	for i := range b {
		if o[i]&^b[i] != 0 {
			return false
		}
	}
	return true
}

func (ws worlds) step(m move) worlds {
	next := worlds{done: ws.done}
	if !ws.done.has(m.needs) {
		return next
	}
	next.done.add(m.number)
	for _, w := range ws.may {
		next.add(w.do(m)...)
		if m.maybe {
			next.add(w)
		}
	}
	return next
}

func (ws *worlds) add(some ...world) {
	for _, w := range some {
		if !slices.Contains(ws.may, w) {
			ws.may = append(ws.may, w)
		}
	}
}

// equal compares what there may be; porcupine itself compares which moves were made.
func (ws worlds) equal(o worlds) bool {
	return len(ws.may) == len(o.may) && !slices.ContainsFunc(ws.may, func(w world) bool { return !slices.Contains(o.may, w) })
}

func (ws worlds) hash() (h uint64) {
	for _, w := range ws.may {
		h ^= maphash.Comparable(hashSeed, w) // in whatever order
	}
	return h
}

var hashSeed = maphash.MakeSeed()

// lifecycle is the model of one owner.
var lifecycle = porcupine.Model{
	Init: func() any { return worlds{may: []world{{}}} },
	Step: func(state, input, _ any) (bool, any) {
		next := state.(worlds).step(input.(move))
		return len(next.may) > 0, next
	},
	Equal: func(a, b any) bool { return a.(worlds).equal(b.(worlds)) },
	Hash:  func(state any) uint64 { return state.(worlds).hash() },
}
