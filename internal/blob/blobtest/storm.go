package blobtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/testkit"
)

// Storm makes random calls on a store that fails at random, and compares every result with a model. A call that
// returns an error may or may not have taken effect; every other result must be correct. Storm returns the errors.
// It logs its random seed.
func Storm(t *testing.T, s blob.Store) (failed []error) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("storm with seed %d", seed)
	w := &storm{T: t, s: s, ctx: callContext(t), rng: rand.New(rand.NewPCG(seed, 0)), may: map[string][]state{}}
	for _, key := range stormKeys {
		w.may[key] = []state{{}}
	}
	calls := testkit.Size(t, "blob.storm")
	for range calls {
		if err := w.step(); err != nil {
			failed = append(failed, err)
		}
	}
	t.Logf("%d of %d calls failed", len(failed), calls)
	return failed
}

var stormKeys = []string{"storm/a", "storm/b/c", "storm/b/d", "storm/long/" + strings.Repeat("x", 200)}

// state is a possible state of an object in the model.
type state struct {
	there bool
	text  string
	tag   blob.Tag // empty if unknown
}

// storm is a store under test with the possible states of each object.
type storm struct {
	*testing.T
	s   blob.Store
	ctx context.Context
	rng *rand.Rand
	may map[string][]state
}

func (w *storm) key() string { return stormKeys[w.rng.IntN(len(stormKeys))] }

func (w *storm) step() error {
	switch w.rng.IntN(10) {
	case 0, 1, 2:
		return w.put(w.key())
	case 3, 4, 5:
		return w.get(w.key())
	case 6:
		return w.list()
	case 7:
		return w.copy(w.key(), w.key())
	default:
		return w.remove(w.key())
	}
}

// settle keeps only the possible states that agree with a result. If none does, the result was wrong.
func (w *storm) settle(key, answer string, agrees func(state) bool) {
	w.Helper()
	var left []state
	for _, st := range w.may[key] {
		if agrees(st) {
			left = append(left, st)
		}
	}
	if left == nil {
		w.Fatalf("%s, which may be %v: %s", key, w.may[key], answer)
	}
	w.may[key] = left
}

func (st state) String() string {
	if !st.there {
		return "absent"
	}
	return fmt.Sprintf("%s with tag %s", brief([]byte(st.text)), st.tag)
}

func (w *storm) put(key string) error {
	text := string(noise(w.rng.Uint64(), w.size()))
	var o blob.PutOptions
	switch known := w.may[key][0]; w.rng.IntN(4) {
	case 0:
		o.IfAbsent = true
	case 1:
		if o.IfMatch = known.tag; known.tag == "" {
			o.IfMatch = `"0123456789abcdef0123456789abcdef"`
		}
	}
	fits := func(st state) bool {
		return !(o.IfAbsent && st.there) && (o.IfMatch == "" || st.there && (st.tag == o.IfMatch || st.tag == ""))
	}
	tag, err := w.s.Put(w.ctx, key, struct{ *strings.Reader }{strings.NewReader(text)}, int64(len(text)), o)
	switch {
	case err == nil:
		w.settle(key, fmt.Sprintf("put with %+v was accepted", o), fits)
		w.may[key] = []state{{true, text, tag}}
	case errors.Is(err, blob.ErrPrecondition):
		w.settle(key, fmt.Sprintf("put with %+v was refused", o), func(st state) bool {
			return o.IfAbsent && st.there || o.IfMatch != "" && (!st.there || st.tag != o.IfMatch)
		})
		return nil
	default:
		w.may[key] = append(w.may[key], state{true, text, ""})
	}
	return err
}

// size returns a random size. Most sizes are small; a few need several parts.
func (w *storm) size() int {
	if w.rng.IntN(40) == 0 {
		return 17 << 20
	}
	return w.rng.IntN(100_000)
}

func (w *storm) get(key string) error {
	var o blob.GetOptions
	if w.rng.IntN(2) == 0 {
		o.Offset, o.Length = w.rng.Int64N(1000), 1+w.rng.Int64N(100_000)
	}
	if w.rng.IntN(3) == 0 {
		o.IfNoneMatch = w.may[key][0].tag
	}
	object, text, err := read(w.ctx, w.s, key, o)
	switch {
	case err == nil:
		w.settle(key, fmt.Sprintf("get with %+v gave %s of %d bytes", o, brief(text), object.Size), func(st state) bool {
			return st.there && int64(len(st.text)) == object.Size && st.part(o) == string(text) && (st.tag == "" || st.tag == object.Tag)
		})
	case errors.Is(err, blob.ErrNotFound):
		w.settle(key, "get found nothing", func(st state) bool { return !st.there })
	case errors.Is(err, blob.ErrNotModified):
		w.settle(key, "get found "+string(o.IfNoneMatch), func(st state) bool { return st.there && (st.tag == "" || st.tag == o.IfNoneMatch) })
	case errors.Is(err, blob.ErrRange):
		w.settle(key, fmt.Sprintf("get with %+v was out of range", o), func(st state) bool { return st.there && int64(len(st.text)) <= o.Offset })
	default:
		return err
	}
	return nil
}

func (st state) part(o blob.GetOptions) string {
	from := min(o.Offset, int64(len(st.text)))
	if o.Length == 0 {
		return st.text[from:]
	}
	return st.text[from:min(from+o.Length, int64(len(st.text)))]
}

func (w *storm) list() error {
	listed := map[string]blob.Entry{}
	for e, err := range w.s.List(w.ctx, "storm/", blob.ListOptions{}) {
		if err != nil {
			return err
		}
		listed[e.Key] = e
	}
	for _, key := range stormKeys {
		e, there := listed[key]
		w.settle(key, fmt.Sprintf("listed %v as %+v", there, e), func(st state) bool {
			return st.there == there && (!there || int64(len(st.text)) == e.Size && (st.tag == "" || st.tag == e.Tag))
		})
	}
	return nil
}

func (w *storm) copy(from, to string) error {
	if from == to {
		return nil
	}
	err := w.s.Copy(w.ctx, from, to)
	switch {
	case err == nil:
		w.settle(from, "it was copied", func(st state) bool { return st.there })
		w.may[to] = nil
		for _, st := range w.may[from] {
			w.may[to] = append(w.may[to], state{true, st.text, ""})
		}
	case errors.Is(err, blob.ErrNotFound):
		w.settle(from, "there was nothing to copy", func(st state) bool { return !st.there })
		return nil
	default:
		for _, st := range w.may[from] {
			if st.there {
				w.may[to] = append(w.may[to], state{true, st.text, ""})
			}
		}
	}
	return err
}

func (w *storm) remove(key string) error {
	err := w.s.Delete(w.ctx, key)
	if err == nil {
		w.may[key] = []state{{}}
	} else {
		w.may[key] = append(w.may[key], state{})
	}
	return err
}
