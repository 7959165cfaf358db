package fleet_test

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// The model says what callers of one owner may see, whoever they are and whichever server they ask.
//
// A request is not one step. It records a wish (to run, to stop, to go), at some moment after it was sent;
// the servers then move the sandbox by themselves; and its answer is the record as it was at some later
// moment, before the answer arrived. So every request becomes one or more moves, each of which happened at
// one moment between call and return, and in their order: porcupine looks for an order of all moves of all
// requests in which each could happen.
//
// Exact in the model: which id the owner's name stands for, who made it, what is wanted, that deleted is
// for ever, and that nothing is left of a deleted one when the next is made or the name stands for nothing. A sandbox goes only where its wish leads: what was begun for an older one may be finished, but
// nothing is begun for a wish that is no more. A request whose answer was lost may have had its effect at any
// time until the end.

// row is one sandbox that was not deleted. Where it is by now nobody knows until somebody looks.
type row struct {
	id          string // empty: made by a request whose answer nobody got, and not seen since
	want        string
	incarnation int64  // when it was last seen
	may         places // where it may be by now, and how often reborn since then
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
		w = w.allGone() // an owner has one sandbox at a time, the deleted ones until they are gone included
		w.is, w.row = true, row{id: m.id, want: "running", may: at("pending", 0).onward("running")}
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

// wish records what is wanted of a sandbox; of a deleted one nothing is.
func (w world) wish(m move) []world {
	w, ok := w.bind(m.id)
	if !ok {
		return nil
	}
	w.row.want, w.row.may = m.want, w.row.may.onward(m.want)
	return []world{w}
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
func (w world) look(s seen) []world {
	if s.deleted {
		if w.mark(s.id) != "-" || s.want != "gone" {
			return nil
		}
		return []world{w}
	}
	w, ok := w.bind(s.id)
	is := at(s.state, s.incarnation-w.row.incarnation)
	if !ok || !s.consistent() || s.want != w.row.want || w.row.may&is == 0 {
		return nil
	}
	w.row.incarnation, w.row.may = s.incarnation, at(s.state, 0).onward(s.want)
	return []world{w}
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

// allGone is the world in which nothing is left of any deleted sandbox.
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

// worlds is what porcupine takes for a state: all that there may be by now, as far as anybody has seen.
type worlds struct {
	may  []world
	done bits  // the steps made so far
	next *step // if any, the only one that need be tried now
}

// step makes a move in every world, if it is one that need be tried.
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

// ready says whether a step can be the next one: all that came before it were made.
func (ws worlds) ready(m *step) bool { return !ws.done.has(m.number) && ws.done.all(m.needs) }

// settled says whether a move can be made now as well as at any later moment: it changes nothing now, and
// later it would leave no more than there is without it. What only looks takes worlds away, or what can
// happen in them, and never adds any; and whatever is asked of a deleted sandbox changes nothing for ever.
// Not so a wish: what is wanted already may have to be wished for again, after another wish.
func (ws worlds) settled(m move) bool {
	alive := func(w world) bool { return m.id == "" || w.mark(m.id) == "" }
	return (m.looks() || !slices.ContainsFunc(ws.may, alive)) && same(ws.after(m), ws.may)
}

// after is what there may be after a move.
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

// same compares sets.
func same(a, b []world) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(w world) bool { return !slices.Contains(b, w) })
}

func (ws worlds) hash() (h uint64) {
	for _, w := range ws.may {
		h ^= maphash.Comparable(hashSeed, w) // in whatever order
	}
	return h
}

var hashSeed = maphash.MakeSeed()

// bits is a set of steps, by their numbers.
type bits [mostSteps / 64]uint64

const mostSteps = 1024 // in the history of one owner

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

// lifecycle is the model of one owner. Porcupine itself compares which steps were made.
var lifecycle = porcupine.Model{
	Init: func() any { return worlds{may: []world{{}}} },
	Step: func(state, input, _ any) (bool, any) {
		next := state.(worlds).step(input.(*step))
		return len(next.may) > 0, next
	},
	Equal: func(a, b any) bool { return same(a.(worlds).may, b.(worlds).may) },
	Hash:  func(state any) uint64 { return state.(worlds).hash() },
}
