package workspacesync

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/workspace"
)

// largeFile streams a file of a version. Sequential reads use the same request to the store.
type largeFile struct {
	ctx  context.Context
	v    *storedFS
	e    *workspace.Entry
	info files.Info

	mu     sync.Mutex
	body   io.ReadCloser
	cancel context.CancelFunc
	at     int64 // offset of the next byte in body
	pos    int64 // offset for Read and Seek
}

func (f *largeFile) Info() files.Info { return f.info }

// seek starts a new request at an offset.
func (f *largeFile) seek(offset int64) error {
	f.stop()
	ctx, cancel := context.WithCancel(f.ctx)
	stalled := time.AfterFunc(storeWait, cancel)
	body, err := f.v.Stream(ctx, f.e, offset)
	if err != nil {
		late := !stalled.Stop()
		cancel()
		if late && f.ctx.Err() == nil {
			return fault.Errorf("read version", api.CodeBlobUnreachable, "the object store did not answer within %s: %w", storeWait, err)
		}
		return WrapError("read version", err)
	}
	stalled.Stop()
	f.body, f.cancel, f.at = body, cancel, offset
	return nil
}

func (f *largeFile) stop() {
	if f.body != nil {
		f.cancel()
		_ = f.body.Close()
		f.body = nil
	}
}

// ReadAt implements io.ReaderAt.
func (f *largeFile) ReadAt(p []byte, offset int64) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.readAt(p, offset)
}

func (f *largeFile) readAt(p []byte, offset int64) (n int, err error) {
	if offset >= f.e.Size {
		return 0, io.EOF
	}
	if f.body == nil || f.at != offset {
		if err := f.seek(offset); err != nil {
			return 0, err
		}
	}
	short := int64(len(p)) > f.e.Size-offset
	if short {
		p = p[:f.e.Size-offset]
	}
	stalled := time.AfterFunc(storeStall, f.cancel)
	n, err = io.ReadFull(f.body, p)
	late := !stalled.Stop()
	f.at += int64(n)
	switch {
	case err == nil && short:
		err = io.EOF
	case err != nil && late && f.ctx.Err() == nil:
		err = fault.Errorf("read version", api.CodeBlobUnreachable, "the object store sent nothing for %s", storeStall)
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	if err != nil && err != io.EOF {
		f.stop()
	}
	return n, err
}

// Read implements io.Reader.
func (f *largeFile) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.readAt(p, f.pos)
	f.pos += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// Seek implements io.Seeker.
func (f *largeFile) Seek(offset int64, whence int) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += f.pos
	case io.SeekEnd:
		offset += f.e.Size
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning of the file")
	}
	f.pos = offset
	return offset, nil
}

// Close implements io.Closer.
func (f *largeFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop()
	return nil
}
