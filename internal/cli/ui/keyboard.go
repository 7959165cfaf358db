package ui

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Keyboard reads keys from a terminal and can be stopped. A plain read cannot: it would wait for one more key and
// discard it.
type Keyboard struct {
	File                *os.File
	stopRead, stopWrite *os.File
}

// ErrStopped is the error of a read that Stop ended.
var ErrStopped = errors.New("keyboard stopped")

// NewKeyboard returns a Keyboard that reads from a terminal.
func NewKeyboard(file *os.File) (*Keyboard, error) {
	stopRead, stopWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &Keyboard{file, stopRead, stopWrite}, nil
}

// Read waits for keys. It returns ErrStopped after Stop.
func (k *Keyboard) Read(p []byte) (int, error) {
	fds := []unix.PollFd{{Fd: int32(k.File.Fd()), Events: unix.POLLIN}, {Fd: int32(k.stopRead.Fd()), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, err
		case fds[1].Revents != 0:
			return 0, ErrStopped
		}
		return k.File.Read(p)
	}
}

// Stop ends all reads and waits for the readers.
func (k *Keyboard) Stop(readers *sync.WaitGroup) {
	_ = k.stopWrite.Close()
	readers.Wait()
	_ = k.stopRead.Close()
}
