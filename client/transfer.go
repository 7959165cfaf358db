package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/api"
)

// Download is a file or an archive that is being read. An end that is not io.EOF means that it is not
// whole. Close it in any case.
type Download struct {
	Size      int64  // of the whole file; -1 for an archive
	ETag      string // of the file
	Truncated bool   // MaxBytes cut it off

	c     *Client
	res   *http.Response
	alive *time.Timer
	stop  func()
}

// ReadFile begins to read a file. What is lost on the way is not asked for again.
func (s Sandboxes) ReadFile(ctx context.Context, ref, source, name string, o ReadOptions) (*Download, error) {
	const op = "read file"
	at, err := filePath(ref, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	q := fileQuery(source)
	if o.MaxBytes > 0 {
		q.Set("max_bytes", strconv.FormatInt(o.MaxBytes, 10))
	}
	d, err := s.c.download(ctx, call{op: op, method: http.MethodGet, path: at, query: q}, o.header())
	if err != nil {
		return nil, err
	}
	d.ETag, d.Truncated = d.res.Header.Get("ETag"), d.res.Header.Get(api.HeaderTruncated) == "true"
	if d.Size, err = strconv.ParseInt(d.res.Header.Get(api.HeaderFileSize), 10, 64); err != nil || o.Offset > 0 && d.res.StatusCode != http.StatusPartialContent {
		defer d.Close()
		return nil, fmt.Errorf("%s: %w", op, s.c.strange(d.res, "its answer is no file, or not the part asked for"))
	}
	return d, nil
}

// DownloadArchive begins to read a folder as a tar. The reserved folder .berth is in it only if hidden is
// asked for.
func (s Sandboxes) DownloadArchive(ctx context.Context, ref, source, folder string, hidden bool) (*Download, error) {
	d, err := s.c.download(ctx, call{
		op: "download folder", method: http.MethodGet, path: path{sandboxesPath, ref, "archive"},
		query: fileQuery(source, "path", folder, "hidden", yes(hidden)),
	}, nil)
	if err == nil {
		d.Size = -1
	}
	return d, err
}

// Read reads on. A server that says nothing for too long is given up.
func (d *Download) Read(p []byte) (int, error) {
	d.alive.Reset(silence)
	n, err := d.res.Body.Read(p)
	d.alive.Stop() // the time until the next call is the reader's own
	if err != nil && err != io.EOF {
		err = d.c.unreachable(fmt.Errorf("the answer broke off: %w", err))
	}
	return n, err
}

// Skipped is how many files were left out of an archive; it is known once the archive was read to its
// end.
func (d *Download) Skipped() int {
	n, _ := strconv.Atoi(d.res.Trailer.Get(api.HeaderSkipped))
	return n
}

// Close ends the download.
func (d *Download) Close() error {
	d.stop()
	return d.res.Body.Close()
}

// download sends a call until an answer begins.
func (c *Client) download(ctx context.Context, call call, header http.Header) (*Download, error) {
	for attempt := 1; ; attempt++ {
		res, alive, stop, err := c.transfer(ctx, call, header, nil)
		if err == nil {
			return &Download{c: c, res: res, alive: alive, stop: stop}, nil
		}
		if attempt >= c.attempts || !retryable(err.error) || !pause(ctx, err.wait(attempt)) {
			return nil, fmt.Errorf("%s: %w", call.op, ended(ctx, err.error))
		}
	}
}

// WriteFile writes a file with what it reads, at once: readers see the old one or the new. Made tells
// whether it is new. The call is repeated only where the body can be read again: with an io.Seeker.
func (s Sandboxes) WriteFile(ctx context.Context, ref, source, name string, body io.Reader, o WriteOptions) (file api.File, made bool, err error) {
	const op = "write file"
	at, err := filePath(ref, name)
	if err != nil {
		return file, false, fmt.Errorf("%s: %w", op, err)
	}
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	if o.New {
		header.Set("If-None-Match", "*")
	}
	status, err := s.c.upload(ctx, call{op: op, method: http.MethodPut, path: at, query: fileQuery(source, "mode", o.mode())}, header, body, &file)
	return file, status == http.StatusCreated, err
}

// UploadArchive unpacks a tar into a folder, which is made if it is missing. See WriteFile for repeats.
func (s Sandboxes) UploadArchive(ctx context.Context, ref, source, folder string, body io.Reader) (got api.Unpacked, err error) {
	_, err = s.c.upload(ctx, call{
		op: "upload folder", method: http.MethodPut, path: path{sandboxesPath, ref, "archive"}, query: fileQuery(source, "path", folder),
	}, http.Header{"Content-Type": {"application/x-tar"}}, body, &got)
	return got, err
}

// upload sends a body of any size, and again only if it can be rewound.
func (c *Client) upload(ctx context.Context, call call, header http.Header, body io.Reader, out any) (status int, err error) {
	sent := &sending{body: body, size: -1}
	seeker, rewinds := body.(io.Seeker)
	var start int64
	if rewinds {
		start, sent.size, rewinds = measure(seeker)
	}
	for attempt := 1; ; attempt++ {
		res, _, stop, failed := c.transfer(ctx, call, header, sent)
		if failed == nil {
			defer stop()
			defer res.Body.Close()
			if err := c.decode(res, out); err != nil {
				return res.StatusCode, fmt.Errorf("%s: %w", call.op, err)
			}
			return res.StatusCode, nil
		}
		if !rewinds || attempt >= c.attempts || !retryable(failed.error) || !pause(ctx, failed.wait(attempt)) {
			return failed.status, fmt.Errorf("%s: %w", call.op, ended(ctx, failed.error))
		}
		// The transport may still be reading, and must not read on after this.
		sent.rest()
		if _, err := seeker.Seek(start, io.SeekStart); err != nil {
			return failed.status, fmt.Errorf("%s: read again what to send: %w", call.op, err)
		}
		sent = &sending{body: body, size: sent.size}
	}
}

// measure finds out how much there is to send. A pipe has the method, too, and fails.
func measure(s io.Seeker) (start, size int64, ok bool) {
	start, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, -1, false
	}
	end, err := s.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, -1, false
	}
	_, err = s.Seek(start, io.SeekStart)
	return start, end - start, err == nil
}

// refused is an attempt that did not succeed.
type refused struct {
	reply
	error
}

// transfer sends a call once, with a body that is sent as it is read. The timer ends the call when it
// runs out; stop ends it at once.
func (c *Client) transfer(ctx context.Context, call call, header http.Header, body *sending) (*http.Response, *time.Timer, func(), *refused) {
	ctx, cancel := context.WithCancelCause(ctx)
	patience := max(c.timeout, silence)
	alive := time.AfterFunc(patience, func() { cancel(errSilent) })
	stop := func() { alive.Stop(); cancel(nil) }
	req, err := c.request(ctx, call, rand.Text(), nil)
	if err != nil {
		stop()
		return nil, nil, nil, &refused{reply{}, err}
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Accept", "*/*")
	if body != nil {
		req.Body, req.ContentLength, req.GetBody = http.NoBody, body.size, nil
		if body.size != 0 {
			req.Body = body.begin(alive, patience)
		}
	}
	res, err := c.http.Do(req)
	if err != nil {
		stop()
		if broken := body.broken(); broken != nil {
			return nil, nil, nil, &refused{reply{}, fmt.Errorf("read what to send: %w", broken)}
		}
		return nil, nil, nil, &refused{reply{}, c.unreachable(errors.Join(err, silenceOf(ctx)))}
	}
	alive.Stop()
	if res.StatusCode/100 == 2 {
		return res, alive, stop, nil
	}
	defer stop()
	defer res.Body.Close()
	return nil, nil, nil, &refused{reply{status: res.StatusCode, retryAfter: retryAfter(res.Header)}, c.problem(res)}
}

// silenceOf is the reason of a call that was given up.
func silenceOf(ctx context.Context) error {
	if context.Cause(ctx) == errSilent {
		return errSilent
	}
	return nil
}

// sending is a body on its way. It is read by a goroutine of its own: the transport waits for its reads
// to end, and one from a terminal or a pipe may never do.
type sending struct {
	body   io.Reader
	size   int64 // -1 if it is not known
	out    *io.PipeReader
	over   chan struct{} // closed when nobody reads the body any more
	failed atomic.Pointer[error]
}

// begin starts to read. The server has time anew with every piece that it takes.
func (s *sending) begin(alive *time.Timer, patience time.Duration) io.ReadCloser {
	var in *io.PipeWriter
	s.out, in = io.Pipe()
	s.over = make(chan struct{})
	go func() {
		defer close(s.over)
		buf := make([]byte, 64<<10)
		for {
			alive.Stop() // the time that reading takes is not the server's
			n, err := s.body.Read(buf)
			alive.Reset(patience)
			if err != nil && err != io.EOF {
				s.failed.Store(&err)
			}
			if _, gone := in.Write(buf[:n]); gone != nil {
				return
			}
			if err != nil {
				_ = in.CloseWithError(err)
				return
			}
		}
	}()
	return s.out
}

// rest ends the reading and waits until it has ended.
func (s *sending) rest() {
	if s.out != nil {
		_ = s.out.Close()
		<-s.over
	}
}

// broken is the error of the body itself, if there was one.
func (s *sending) broken() error {
	if s == nil {
		return nil
	}
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}
