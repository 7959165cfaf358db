package cli

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// keyboard reads what is typed at a terminal, and stops when it is told to: reading itself would wait for
// one more key, and swallow it.
type keyboard struct {
	file       *os.File
	wake, over *os.File
}

var errStopped = errors.New("told to stop")

func newKeyboard(file *os.File) (*keyboard, error) {
	wake, over, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &keyboard{file, wake, over}, nil
}

// Read waits for keys. It ends with errStopped once it was told to stop.
func (k *keyboard) Read(p []byte) (int, error) {
	fds := []unix.PollFd{{Fd: int32(k.file.Fd()), Events: unix.POLLIN}, {Fd: int32(k.wake.Fd()), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, err
		case fds[1].Revents != 0:
			return 0, errStopped
		}
		return k.file.Read(p)
	}
}

// stop lets go of whoever reads, and waits for them.
func (k *keyboard) stop(readers *sync.WaitGroup) {
	_ = k.over.Close()
	readers.Wait()
	_ = k.wake.Close()
}
