package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/auth"
)

const orOtherDir = ", or choose another with --data-dir (BERTH_DATA_DIR)"

func dataDir(_ context.Context, s Subject) finding {
	dir := s.Config.DataDir
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missingDir(dir)
	case err != nil:
		return fail("make it accessible to the user that runs the server"+orOtherDir, "%v", err)
	case !info.IsDir():
		return fail("remove it"+orOtherDir, "%s is not a directory", dir)
	}
	if err := writable(dir); err != nil {
		return fail("let the user that runs the server write there"+orOtherDir, "%v", err)
	}
	if f := ownerFinding(dir, int(info.Sys().(*syscall.Stat_t).Uid), os.Geteuid()); f.status != OK {
		return f
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return warn("chmod 700 "+dir, "%s has mode %04o: other users may look into it", dir, mode)
	}
	return fine("%s, writable, mode %04o", dir, info.Mode().Perm())
}

// missingDir checks whether the server could create the directory.
func missingDir(dir string) finding {
	parent := existing(dir)
	if err := writable(parent); err != nil {
		return fail("make it for the user that runs the server"+orOtherDir, "%s does not exist and cannot be made: %v", dir, err)
	}
	return fine("%s does not exist yet; the server makes it", dir)
}

// existing returns path, or its nearest ancestor that exists.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// writable returns an error if it cannot create a file in the directory. It removes the file again.
func writable(dir string) error {
	file, err := os.CreateTemp(dir, ".berth-doctor-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString("x")
	return errors.Join(err, file.Sync(), file.Close())
}

func ownerFinding(dir string, owner, me int) finding {
	if owner == me {
		return fine("ours")
	}
	return warn(fmt.Sprintf("run the server as uid %d, or 'chown -R %d %s'", owner, me, dir),
		"%s belongs to uid %d, this is uid %d", dir, owner, me)
}

const (
	lowSpace = 1 << 30
	minSpace = 100 << 20
	gibByte  = 1 << 30
)

func disk(_ context.Context, s Subject) finding {
	dir := existing(s.Config.DataDir)
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return warn("look at the file system with 'df'", "ask %s for its free space: %v", dir, err)
	}
	return diskFinding(dir, uint64(st.Bavail)*uint64(st.Bsize))
}

func diskFinding(dir string, free uint64) finding {
	const fix = "free some space, or choose a larger place with --data-dir (BERTH_DATA_DIR)"
	detail := fmt.Sprintf("%.1f GiB free at %s", float64(free)/gibByte, dir)
	switch {
	case free < minSpace:
		return fail(fix, "%s", detail)
	case free < lowSpace:
		return warn(fix, "%s", detail)
	}
	return fine("%s", detail)
}

// secrets checks the permissions of the files with secrets: only their owner may read them.
func secrets(_ context.Context, s Subject) finding {
	var there, open []string
	for _, name := range []string{auth.AdminKeyFile, auth.SecretFile} {
		path := filepath.Join(s.Config.DataDir, name)
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		there = append(there, name)
		if info.Mode().Perm()&0o077 != 0 {
			open = append(open, path)
		}
	}
	switch {
	case len(open) > 0:
		return fail("chmod 600 "+strings.Join(open, " ")+"; if others have had the chance to read them, make new ones",
			"other users may read %s", strings.Join(open, " and "))
	case len(there) == 0:
		return fine("none kept yet")
	}
	return fine("%s: for their owner alone", strings.Join(there, ", "))
}

// Names of the files of package store.
const (
	lockFile   = "berth.lock"
	sqliteFile = "berth.db"
)

// lock reports which process holds the data directory. Servers with PostgreSQL need no lock.
func lock(_ context.Context, s Subject) finding {
	if s.Config.DatabaseURL != "" {
		return fine("not needed with PostgreSQL")
	}
	switch pid, held := lockHolder(s.Config.DataDir); {
	case held && pid > 0:
		return fine("held by process %d: a server is running", pid)
	case held:
		return fine("held by a process that did not say which")
	}
	return fine("free: no server is running here")
}

// servesFrom reports whether a running server may use this data directory. It is true if the lock is held, if there is
// no lock (with PostgreSQL), or if this user may not see the lock.
func servesFrom(s Subject) bool {
	if s.Config.DatabaseURL != "" {
		return true
	}
	file, err := os.Open(filepath.Join(s.Config.DataDir, lockFile))
	if err == nil {
		_ = file.Close()
	}
	_, held := lockHolder(s.Config.DataDir)
	return held || errors.Is(err, fs.ErrPermission)
}

// lockHolder tries to take the lock in shared mode. That fails while a server holds it.
func lockHolder(dir string) (pid int, held bool) {
	file, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return 0, false
	}
	defer file.Close()
	if unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
		return 0, false
	}
	text := make([]byte, 32)
	n, _ := file.Read(text)
	pid, _ = strconv.Atoi(strings.TrimSpace(string(text[:n])))
	return pid, true
}
