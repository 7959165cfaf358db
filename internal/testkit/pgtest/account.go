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

// account is the user that the server runs as. Nil means the user of the test.
type account = *syscall.Credential

// serverAccount returns an account that PostgreSQL accepts, because PostgreSQL refuses to run as root.
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

// maxDir is the maximum length of the parent folder's path. It leaves room for the socket's name: the path of a Unix
// socket has at most 107 bytes.
const maxDir = 80

// makeDir makes the server's folder in the first of the bases that the account can reach. Only the account may enter
// the folder.
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

// as prepares cmd to run in the server's folder under its account, in a new session. Ctrl-C in the terminal then
// reaches only the test, which stops its server in order.
func (c *Cluster) as(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: c.who}
	return cmd
}
