package blob_test

import (
	"testing"

	"github.com/berthdev/berth/internal/blob"
)

// able is a store with an ability; around is one around another.
type able struct{ blob.Store }

func (able) CanDo() bool { return true }

type around struct{ blob.Store }

func (a around) Unwrap() blob.Store { return a.Store }

// An ability is found through whatever wraps a store, and only there.
func TestAs(t *testing.T) {
	type doer interface{ CanDo() bool }
	if d, ok := blob.As[doer](around{around{able{}}}); !ok || !d.CanDo() {
		t.Error("it is not found")
	}
	if _, ok := blob.As[doer](around{struct{ blob.Store }{able{}}}); ok {
		t.Error("it is found behind what hides it")
	}
}
