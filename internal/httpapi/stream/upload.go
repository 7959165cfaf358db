package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/middleware"
)

// TransferTime is the default of the maximum time without progress of a transfer.
const TransferTime = time.Minute

// leastRate is the minimum rate of a sender in bytes per second, on average. A sender may always pause for a limited
// time, however much it has sent before.
const leastRate = 1 << 10

// ErrSlow is the error of a body whose sender was slower than leastRate.
var ErrSlow = fmt.Errorf("less than %d bytes a second arrived: %w", leastRate, os.ErrDeadlineExceeded)

// RateCredit is the time for which the server still waits for a sender. Received bytes add to it, up to a maximum.
type RateCredit struct{ left, most time.Duration }

// NewRateCredit returns the credit of a sender that may pause for the given time.
func NewRateCredit(most time.Duration) RateCredit { return RateCredit{left: most, most: most} }

// Deadline returns the deadline of a read that begins now.
func (c *RateCredit) Deadline(now time.Time) time.Time { return now.Add(c.left) }

// Arrived counts n bytes that came after a wait. It returns ErrSlow if the sender was too slow, and err otherwise.
func (c *RateCredit) Arrived(n int, waited time.Duration, err error) error {
	c.left = min(c.left-waited+time.Duration(n)*time.Second/leastRate, c.most)
	if errors.Is(err, os.ErrDeadlineExceeded) || err == nil && c.left <= 0 {
		return ErrSlow
	}
	return err
}

type uploadReader struct {
	io.Reader
	conn   progressWriter
	credit RateCredit
}

// Upload returns the body of a long upload. Reads fail with ErrSlow if the sender is slower than leastRate.
func Upload(w http.ResponseWriter, body io.Reader, each time.Duration) io.Reader {
	return &uploadReader{body, progressWriter{w, each}, NewRateCredit(each)}
}

// Read also extends the write deadline, because the answer is written after the body was read.
func (p *uploadReader) Read(b []byte) (int, error) {
	began := time.Now()
	_ = http.NewResponseController(p.conn.ResponseWriter).SetReadDeadline(p.credit.Deadline(began)) // response recorders of tests have no deadlines
	p.conn.extend()
	n, err := p.Reader.Read(b)
	return n, p.credit.Arrived(n, time.Since(began), err)
}

// FailUpload answers a request whose body may not have been read completely. Like middleware.RefuseLargeBody, it then
// reads the body for a while.
func FailUpload(w http.ResponseWriter, r *http.Request, err error, each time.Duration) {
	w = Progressing(w, each)
	var source *files.SourceError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		middleware.RefuseLargeBody(w, r, large.Limit)
		return
	case exchange.KeyEnded(r.Context()) != nil:
		err = context.Cause(r.Context())
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fault.Errorf("", api.CodeBodyTimeout, "the body came too slowly: it must bring %d bytes a second on average", leastRate)
	case errors.As(err, &source):
		err = fault.Errorf("", api.CodeInvalidRequest, "the body broke off: %w", source.Err)
	}
	refuseBody(w, func() { exchange.Fail(w, r, err) }, exchange.Of(r.Context()).Body)
}

// refuseBody answers and then reads the body for a while, so that a client that is still sending gets the answer.
func refuseBody(w http.ResponseWriter, answer func(), body io.Reader) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex()
	w.Header().Set("Connection", "close")
	answer()
	_ = control.Flush()
	if control.SetReadDeadline(time.Now().Add(middleware.DrainTime)) == nil {
		_, _ = io.CopyN(io.Discard, body, middleware.DrainBytes)
	}
}
