package pid1_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/guest/guesttest"
	"github.com/berthdev/berth/internal/guest/pid1"
)

// The suite also runs in guest and in driver/local, on helpers that are processes of their own. Here it has
// the race detector look at the helper.
func TestHelperPassesSuite(t *testing.T) {
	guesttest.Run(t, guesttest.Harness{New: func(t testing.TB) func(testing.TB) guest.Conn {
		dir := pid1.ServeForTest(t)
		return func(t testing.TB) guest.Conn {
			at, err := os.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			conn := guest.Open(at, guest.Options{Spools: filepath.Join(dir, "spool"), Owner: -1, Root: -1})
			t.Cleanup(func() { conn.Close() })
			return conn
		}
	}})
}
