package stream

import (
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// paced gives so many bytes after each pause.
type paced struct {
	each  int
	pause time.Duration
	left  int
}

func (p *paced) Read(b []byte) (int, error) {
	if p.left <= 0 {
		return 0, io.EOF
	}
	<-time.After(p.pause)
	n := min(p.each, len(b), p.left)
	p.left -= n
	return n, nil
}

// A slow link passes at any length; a trickle ends after a minute.
func TestUploadsHaveALeastRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			from   io.Reader
			passes bool
		}{
			"4 KiB/s":                      {&paced{4 << 10, time.Second, 20 << 20}, true},
			"4 KiB/s in bursts of 30 s":    {&paced{120 << 10, 30 * time.Second, 20 << 20}, true},
			"a pause of 50 s":              {io.MultiReader(&paced{1 << 20, 0, 1 << 20}, &paced{1 << 20, 50 * time.Second, 1 << 20}), true},
			"a byte every 2 s":             {&paced{1, 2 * time.Second, 1 << 20}, false},
			"a byte every 2 s behind much": {io.MultiReader(&paced{1 << 20, 0, 1 << 30}, &paced{1, 2 * time.Second, 1 << 20}), false},
			"half a KiB/s":                 {&paced{512, time.Second, 1 << 20}, false},
		} {
			began := time.Now()
			body := Upload(httptest.NewRecorder(), c.from, TransferTime)
			_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{body}, make([]byte, 256<<10))
			if (err == nil) != c.passes || err != nil && (!errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) > 3*time.Minute) {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
		}
	})
}
