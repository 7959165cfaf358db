package testkit

import (
	"testing"
	"time"
)

// Eventually calls check until it returns nil, with pauses that grow from one millisecond to fifty.
// After the deadline the test fails with the last error. Eventually is for real sockets, processes and
// databases. Inside a synctest bubble waiting is exact and needs no polling.
func Eventually(t testing.TB, deadline time.Duration, check func() error) {
	t.Helper()
	end := time.Now().Add(deadline)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if !time.Now().Before(end) {
			t.Fatalf("still wrong after %v: %v", deadline, err)
			return
		}
		<-time.After(pause)
	}
}
