package fleet_test

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// This file is a model of the answers that the clients of one owner may get from any server.
//
// A request is not a single step. At some moment after the call it records a wish (to run, to stop, to go). The servers
// then move the sandbox towards the wish by themselves. The answer shows the sandbox's record at some later moment before
// the return. So every request becomes one or more moves, in order, each at one moment between call and return. Porcupine
// searches for an order of all moves of all requests in which each move is possible.
//
// The model is exact about these: the id behind the owner's name, the request that made the sandbox, the last wish, that
// a delete is final, and that a deleted sandbox is gone before the next is made or the name is unknown. A sandbox moves
// only towards the last wish. A transition that began for an older wish may be finished, but none begins for it. A
// request whose answer was lost may have its effect at any time until the end.

// row is a sandbox that is not deleted. Its state is known only when an answer shows it.
type row struct {
	id          string // empty: the answer of the request that made it was lost, and no other showed it
	want        string
	incarnation int64  // the last one that an answer showed
	may         places // possible states now, with the number of new incarnations since the last answer
}

// world is one possible situation of an owner. It is comparable.
type world struct {
	is    bool // whether the owner has a sandbox
	row   row
	ended string // ids of deleted sandboxes, sorted, each with a mark: "-" while it is being removed, "+" when it is gone
}

// move is one step of a request.
type move struct {
	what  string // kind of the move, see do
	id    string // id of the sandbox; empty: the sandbox behind the owner's name
	want  string
	row   seen
	maybe bool // whether the move may have had no effect
}

// seen is the record of a sandbox in an answer.
type seen struct {
	id, state, want, instance string
	incarnation               int64
	deleted                   bool
}

func (w world) do(m move) []world {
	switch m.what {
	case "make": // make a new sandbox
		if w.is || m.id != "" && w.mark(m.id) != "" {
			return nil
		}
		w = w.allGone() // a new sandbox is made only when the deleted ones are gone
		w.is, w.row = true, row{id: m.id, want: "running", may: placeOf("pending", 0).onward("running")}
		return []world{w}
	case "wish":
		return w.wish(m)
	case "ensure": // make a sandbox or wish that it runs; the answer with its id was lost
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
			return []world{w} // a second delete changes nothing
		}
		return nil
	case "look":
		return w.look(m.row)
	case "never":
		return nil
	case "none": // the owner has no sandbox
		if w.is {
			return nil
		}
		return []world{w.allGone()}
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

// wish records the wish of a move. It is impossible for a deleted sandbox.
func (w world) wish(m move) []world {
	w, ok := w.bind(m.id)
	if !ok {
		return nil
	}
	w.row.want, w.row.may = m.want, w.row.may.onward(m.want)
	return []world{w}
}

// bind reports whether the owner's sandbox can have this id. If the id of the sandbox is still unknown, it becomes this
// one.
func (w world) bind(id string) (world, bool) {
	if !w.is || id != "" && w.mark(id) != "" {
		return w, false
	}
	if w.row.id == "" {
		w.row.id = id
	}
	return w, id == "" || w.row.id == id
}

// look applies an answer that shows a record.
func (w world) look(s seen) []world {
	if s.deleted {
		if w.mark(s.id) != "-" || s.want != "gone" {
			return nil
		}
		return []world{w}
	}
	w, ok := w.bind(s.id)
	is := placeOf(s.state, s.incarnation-w.row.incarnation)
	if !ok || !s.consistent() || s.want != w.row.want || w.row.may&is == 0 {
		return nil
	}
	w.row.incarnation, w.row.may = s.incarnation, placeOf(s.state, 0).onward(s.want)
	return []world{w}
}

// consistent reports whether the record is possible by itself: a running sandbox has an instance of its incarnation.
func (s seen) consistent() bool {
	return s.state != "running" || strings.HasPrefix(s.instance, fmt.Sprintf("fake-%s.%d.", s.id, s.incarnation))
}

// mark returns the mark of a deleted sandbox, or "" if the sandbox is not deleted.
func (w world) mark(id string) string {
	at := strings.Index(w.ended, id)
	if at < 0 {
		return ""
	}
	return w.ended[at+len(id) : at+len(id)+1]
}

// allGone returns the world in which all deleted sandboxes are gone.
func (w world) allGone() world {
	w.ended = strings.ReplaceAll(w.ended+" ", "- ", "+ ")
	w.ended = strings.TrimSuffix(w.ended, " ")
	return w
}

func (w world) with(id, mark string) world {
	ended := strings.FieldsFunc(w.ended, func(r rune) bool { return r == ' ' })
	ended = slices.DeleteFunc(ended, func(e string) bool { return strings.HasPrefix(e, id) })
	ended = append(ended, id+mark)
	slices.Sort(ended)
	w.ended = strings.Join(ended, " ")
	return w
}

// worlds is the state for porcupine: all worlds that are possible after the moves so far.
type worlds struct {
	may  []world
	done bits  // the steps made so far
	next *step // if not nil, the only step that has to be tried now
}

// step makes a move in every world. It returns no worlds if the step does not have to be tried now.
func (ws worlds) step(m *step) worlds {
	if m != ws.next && (ws.next != nil || !ws.ready(m) || slices.ContainsFunc(m.twins, ws.ready)) {
		return worlds{}
	}
	after := worlds{may: ws.after(m.move), done: ws.done}
	after.done.add(m.number)
	if i := slices.IndexFunc(m.of.steps, func(o *step) bool { return after.ready(o) && after.settled(o.move) }); i >= 0 {
		after.next = m.of.steps[i]
	}
	return after
}

// ready reports whether a step can be the next one: it was not made yet, and all steps that it needs were made.
func (ws worlds) ready(m *step) bool { return !ws.done.has(m.number) && ws.done.all(m.needs) }

// settled reports whether a move can be made now without excluding an order: it changes nothing now, and made later it
// would never add worlds. This holds for a move that only looks, which can only remove worlds, and for every move about
// a deleted sandbox, which never changes anything. It does not hold for a wish: a wish that changes nothing now may be
// needed again after another wish.
func (ws worlds) settled(m move) bool {
	alive := func(w world) bool { return m.id == "" || w.mark(m.id) == "" }
	return (m.readOnly() || !slices.ContainsFunc(ws.may, alive)) && same(ws.after(m), ws.may)
}

// after returns the worlds that are possible after a move.
func (ws worlds) after(m move) (may []world) {
	for _, w := range ws.may {
		next := w.do(m)
		if m.maybe {
			next = append(next, w)
		}
		for _, w := range next {
			if !slices.Contains(may, w) {
				may = append(may, w)
			}
		}
	}
	return may
}

// same reports whether two slices hold the same set of worlds.
func same(a, b []world) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(w world) bool { return !slices.Contains(b, w) })
}

func (ws worlds) hash() (h uint64) {
	for _, w := range ws.may {
		h ^= maphash.Comparable(hashSeed, w) // the order of the worlds does not matter
	}
	return h
}

var hashSeed = maphash.MakeSeed()

// bits is a set of step numbers.
type bits [mostSteps / 64]uint64

const mostSteps = 1024 // maximum number of steps in the history of one owner

func (b *bits) add(n int)      { b[n/64] |= 1 << (n % 64) }
func (b *bits) has(n int) bool { return b[n/64]&(1<<(n%64)) != 0 }
func (b *bits) all(o bits) bool {
	for i := range b {
		if o[i]&^b[i] != 0 {
			return false
		}
	}
	return true
}

// lifecycle is the model of one owner. Equal ignores the field done, because porcupine compares the made steps itself.
var lifecycle = porcupine.Model{
	Init: func() any { return worlds{may: []world{{}}} },
	Step: func(state, input, _ any) (bool, any) {
		next := state.(worlds).step(input.(*step))
		return len(next.may) > 0, next
	},
	Equal: func(a, b any) bool { return same(a.(worlds).may, b.(worlds).may) },
	Hash:  func(state any) uint64 { return state.(worlds).hash() },
}
