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

// Download reads a file or an archive. The content is complete only if Read returns io.EOF at its end. The caller
// must close it.
type Download struct {
	Size      int64  // size of the whole file; -1 if it is not known, as for an archive
	ETag      string // the file's ETag; empty for an archive
	Truncated bool   // MaxBytes cut the content

	c     *Client
	res   *http.Response
	alive *time.Timer
	stop  func()
}

// ReadFile starts to read a file. An interrupted read is not resumed.
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
		return nil, fmt.Errorf("%s: %w", op, s.c.unexpectedAnswer(d.res, "its answer is no file, or not the part asked for"))
	}
	return d, nil
}

// DownloadArchive starts to read a folder as a tar archive. The reserved folder .berth is included only if hidden is
// set.
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

// Read reads the content. It returns an error if the server sends nothing for too long.
func (d *Download) Read(p []byte) (int, error) {
	d.alive.Reset(maxSilence)
	n, err := d.res.Body.Read(p)
	d.alive.Stop() // the time until the next call does not count
	if err != nil && err != io.EOF {
		err = d.c.unreachable(fmt.Errorf("the answer broke off: %w", err))
	}
	return n, err
}

// Skipped returns the number of files that were left out of an archive. It is known only after the archive was read
// to its end.
func (d *Download) Skipped() int {
	n, _ := strconv.Atoi(d.res.Trailer.Get(api.HeaderSkipped))
	return n
}

// Close ends the download and releases its connection.
func (d *Download) Close() error {
	d.stop()
	return d.res.Body.Close()
}

// download sends a call, with repeats, until an answer begins.
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

// WriteFile writes a file with the content of body. Readers see either the old file or the new one. made reports
// whether the file is new. The request is repeated only if body is an io.Seeker, because it must be read again.
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

// UploadArchive unpacks a tar archive into a folder, which is created if it is missing. Like WriteFile, it repeats
// the request only if body is an io.Seeker.
func (s Sandboxes) UploadArchive(ctx context.Context, ref, source, folder string, body io.Reader) (got api.Unpacked, err error) {
	_, err = s.c.upload(ctx, call{
		op: "upload folder", method: http.MethodPut, path: path{sandboxesPath, ref, "archive"}, query: fileQuery(source, "path", folder),
	}, http.Header{"Content-Type": {"application/x-tar"}}, body, &got)
	return got, err
}

// upload sends a body of any size. It repeats the request only if the body can be rewound.
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
		// The transport may still be reading the body. It must stop before Seek.
		sent.stop()
		if _, err := seeker.Seek(start, io.SeekStart); err != nil {
			return failed.status, fmt.Errorf("%s: read again what to send: %w", call.op, err)
		}
		sent = &sending{body: body, size: sent.size}
	}
}

// measure returns the position and the number of remaining bytes of s. It reports false if s cannot seek: a pipe has
// the method Seek, but it fails.
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

// failedAttempt is the error of one attempt, with its answer if there was one.
type failedAttempt struct {
	reply
	error
}

// transfer sends a call once and sends the body while reading it. The returned timer ends the call when it expires;
// stop ends the call immediately.
func (c *Client) transfer(ctx context.Context, call call, header http.Header, body *sending) (*http.Response, *time.Timer, func(), *failedAttempt) {
	ctx, cancel := context.WithCancelCause(ctx)
	patience := max(c.timeout, maxSilence)
	alive := time.AfterFunc(patience, func() { cancel(errSilent) })
	stop := func() { alive.Stop(); cancel(nil) }
	req, err := c.request(ctx, call, rand.Text(), nil)
	if err != nil {
		stop()
		return nil, nil, nil, &failedAttempt{reply{}, err}
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
	res, err := c.roundTrip(req)
	if err != nil {
		stop()
		if broken := body.readError(); broken != nil {
			return nil, nil, nil, &failedAttempt{reply{}, fmt.Errorf("read what to send: %w", broken)}
		}
		return nil, nil, nil, &failedAttempt{reply{}, c.unreachable(errors.Join(err, silenceError(ctx)))}
	}
	alive.Stop()
	if res.StatusCode/100 == 2 {
		return res, alive, stop, nil
	}
	defer stop()
	defer res.Body.Close()
	return nil, nil, nil, &failedAttempt{reply{status: res.StatusCode, retryAfter: retryAfter(res.Header)}, c.problem(res)}
}

// silenceError returns errSilent if the call was ended because the server was silent for too long.
func silenceError(ctx context.Context) error {
	if context.Cause(ctx) == errSilent {
		return errSilent
	}
	return nil
}

// sending is a request body that is being sent. A separate goroutine reads it, because the transport waits for its
// reads to end, and a read from a terminal or a pipe may never end.
type sending struct {
	body   io.Reader
	size   int64 // -1: not known
	out    *io.PipeReader
	over   chan struct{} // closed when the body is no longer read
	failed atomic.Pointer[error]
}

// begin starts to read the body. It restarts the server's time limit before each piece that the server has to take.
func (s *sending) begin(alive *time.Timer, patience time.Duration) io.ReadCloser {
	var in *io.PipeWriter
	s.out, in = io.Pipe()
	s.over = make(chan struct{})
	go func() {
		defer close(s.over)
		buf := make([]byte, 64<<10)
		for {
			alive.Stop() // the time of this read does not count as the server's
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

// stop stops the reading of the body and waits until the goroutine has ended.
func (s *sending) stop() {
	if s.out != nil {
		_ = s.out.Close()
		<-s.over
	}
}

// readError returns the error of reading the body, if there was one.
func (s *sending) readError() error {
	if s == nil {
		return nil
	}
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}
