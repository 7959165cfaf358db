package guest_test

import (
	"testing"

	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/guest/guesttest"
)

func TestLocal(t *testing.T) {
	guesttest.Run(t, guesttest.Harness{New: func(t testing.TB) func(testing.TB) guest.Conn {
		h := guesttest.NewHelper(t)
		return func(t testing.TB) guest.Conn { return h.Connect(t) }
	}})
}
