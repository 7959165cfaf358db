package wire

import (
	"io"
	"os"

	"github.com/berthdev/berth/internal/guest/unix"
)

const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

// sealed returns a sealed memory file that contains body. The seals prevent any change of it.
func sealed(body []byte) (fd int, err error) {
	fd, err = unix.MemfdCreate("message", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, os.NewSyscallError("memfd_create", err)
	}
	if err := fill(fd, body); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func fill(fd int, body []byte) error {
	for len(body) > 0 {
		n, err := unix.Write(fd, body)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return os.NewSyscallError("write", err)
		}
		body = body[n:]
	}
	_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	return os.NewSyscallError("fcntl", err)
}

// unseal reads a memory file that sealed made. It returns ErrMalformed for any other file: a file without seals could
// change while it is read, and reading a file that is not in memory could block forever.
func unseal(fd int) ([]byte, error) {
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || got&seals != seals {
		return nil, ErrMalformed
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	if st.Size > MaxBody {
		return nil, ErrMalformed
	}
	body := make([]byte, st.Size)
	for done := 0; done < len(body); {
		n, err := unix.Pread(fd, body[done:], int64(done))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, os.NewSyscallError("pread", err)
		}
		if n == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		done += n
	}
	return body, nil
}
