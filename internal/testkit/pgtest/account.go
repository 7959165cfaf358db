package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is who the server runs as; nil means the user of the test itself.
type account = *syscall.Credential

// serverAccount picks an account that PostgreSQL accepts: it refuses to run as root.
func serverAccount(euid int, lookup func(string) (*user.User, error)) (account, error) {
	if euid != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("read uid of %s: %w", name, err)
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("read gid of %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("PostgreSQL does not run as root and there is no account postgres or nobody: run adduser --system postgres")
}

// maxDir leaves room for the socket's name in the 107 bytes of a Unix socket path.
const maxDir = 80

// makeDir makes the server's folder, which only its account may enter, below the first of bases
// that the account can reach.
func makeDir(who account, bases ...string) (string, error) {
	for _, base := range bases {
		if len(base) > maxDir || who != nil && !openToAll(base) {
			continue
		}
		dir, err := os.MkdirTemp(base, "berth-pg-")
		if err != nil {
			continue
		}
		if who != nil {
			err = os.Chown(dir, int(who.Uid), int(who.Gid))
		}
		return dir, err
	}
	return "", fmt.Errorf("find a folder for PostgreSQL: none of %q is short enough and open to its account; set TMPDIR", bases)
}

// openToAll reports whether every user may pass through dir and all folders above it.
func openToAll(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
		dir = filepath.Dir(dir)
	}
}

// as prepares cmd to run under the account in dir, apart from the terminal's signals: Ctrl-C is for
// the test, which then stops its server in order.
func (c *Cluster) as(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: c.who}
	return cmd
}
