package local_test

import (
	"testing"

	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/guest/guesttest"
)

// instances are how the guest's suite gets at instances of this driver.
func instances(change ...func(*local.Options)) func(t testing.TB) func(t testing.TB) guest.Conn {
	return func(t testing.TB) func(t testing.TB) guest.Conn {
		d := open(t, t.TempDir(), change...)
		id := create(t, d, spec()).ID
		return func(t testing.TB) guest.Conn {
			conn, err := d.Guest(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			return conn
		}
	}
}

func TestGuestPassesSuite(t *testing.T) {
	guesttest.Run(t, guesttest.Harness{New: instances(), World: true})
}

func TestGuestPassesSuiteAsUser(t *testing.T) {
	if !inUser() {
		asUser(t, 65534, "TestGuestPassesSuiteAsUser")
		return
	}
	guesttest.Run(t, guesttest.Harness{
		New:   instances(func(o *local.Options) { o.Tier = local.TierUser }),
		World: true, Single: true,
	})
}
