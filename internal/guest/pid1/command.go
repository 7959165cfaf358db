package pid1

import (
	"syscall"

	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// Exit codes of commands that cannot be run, as in a shell.
const (
	timedOut  = 124
	cannotRun = 126
	notFound  = 127
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// command is a command that prepare has made ready to be executed.
type command struct {
	path string
	argv []string
	env  []string
	dir  string
	sys  syscall.SysProcAttr

	dirFD int // the open descriptor of dir; -1 after close
}

func (c *command) close() {
	if c.dirFD >= 0 {
		_ = unix.Close(c.dirFD)
	}
	c.dirFD = -1
}

// check returns why a command is invalid, or "".
func (s *server) check(c *wire.Cmd) (why string) {
	switch {
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return "no command"
	case c.Root && s.Single:
		return "this instance has no root user"
	case hasNUL(c.Argv) || hasNUL(c.Env) || index(c.Dir, 0) >= 0:
		return "a zero byte in a command"
	}
	return ""
}

func hasNUL(list []string) bool {
	for _, s := range list {
		if index(s, 0) >= 0 {
			return true
		}
	}
	return false
}

// prepare finds the command's program and directory. If the command cannot be run, it returns an exit with the reason.
func (s *server) prepare(c *wire.Cmd) (command, *wire.Exit) {
	cmd := command{argv: c.Argv, env: s.environment(c), dir: s.directory(c.Dir), dirFD: -1}
	cmd.sys.Setsid = true
	if !s.Single {
		id := uint32(agentID)
		if c.Root {
			id = 0
		}
		cmd.sys.Credential = &syscall.Credential{Uid: id, Gid: id}
	}
	if fd, err := openDirectory(cmd.dir); err != nil {
		return cmd, refusal(cannotRun, "working directory "+cmd.dir, err)
	} else {
		cmd.dirFD = fd
	}
	search, _ := variable(cmd.env, "PATH")
	path, err := lookup(c.Argv[0], cmd.dir, search)
	if err != nil {
		cmd.close()
		return cmd, refusal(codeOf(err), c.Argv[0], err)
	}
	cmd.path = path
	return cmd, nil
}

// refusal returns the exit of a command that cannot be run.
func refusal(code int, what string, err error) *wire.Exit {
	const enough = 300
	if len(what) > enough {
		what = what[:enough] + "…"
	}
	why := err.Error()
	if err == unix.ENOENT && code == notFound && index(what, '/') < 0 {
		why = "command not found"
	}
	return &wire.Exit{Code: code, Reason: what + ": " + why, At: now()}
}

// codeOf returns the exit code for an error of execve or of lookup.
func codeOf(err error) int {
	if err == unix.ENOENT || err == unix.ENOTDIR {
		return notFound
	}
	return cannotRun
}

// environment returns the command's environment, with defaults for PATH, HOME and USER.
func (s *server) environment(c *wire.Cmd) []string {
	home, user := s.Home, "agent"
	if c.Root {
		home, user = "/root", "root"
	}
	env := c.Env
	for _, v := range [...][2]string{{"PATH", defaultPath}, {"HOME", home}, {"USER", user}} {
		if _, ok := variable(c.Env, v[0]); !ok {
			env = append(env, v[0]+"="+v[1])
		}
	}
	return env
}

// variable returns the value of a variable. The first one counts, as in most programs.
func variable(env []string, name string) (value string, ok bool) {
	for _, s := range env {
		if len(s) > len(name) && s[len(name)] == '=' && s[:len(name)] == name {
			return s[len(name)+1:], true
		}
	}
	return "", false
}

// directory returns the absolute path of a command's working directory.
func (s *server) directory(dir string) string {
	switch {
	case dir == "":
		return s.Workdir
	case dir[0] != '/':
		return s.Workdir + "/" + dir
	}
	return dir
}

// openDirectory opens a directory. It does not follow links like those of /proc/self/fd: the helper's descriptors lead
// out of the sandbox.
func openDirectory(path string) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS,
	})
}

// lookup finds a program as a shell does: a name with a slash is a path, any other name is searched for in the
// directories of PATH. Files that cannot be executed are skipped; if there is no other file, their error is returned.
func lookup(name, dir, path string) (string, error) {
	if index(name, '/') >= 0 {
		return name, executable(absolute(name, dir))
	}
	worst := error(unix.ENOENT)
	for more := true; more; {
		var in string
		in, path, more = cut(path, ':')
		if in == "" {
			in = "."
		}
		candidate := in + "/" + name
		err := executable(absolute(candidate, dir))
		if err == nil {
			return candidate, nil
		}
		if codeOf(err) == cannotRun {
			worst = err
		}
	}
	return "", worst
}

// absolute returns path as an absolute path for a command that runs in dir.
func absolute(path, dir string) string {
	if path[0] == '/' {
		return path
	}
	return dir + "/" + path
}

// executable returns an error if a file cannot be executed by any user. It does not check a certain user: execve does.
func executable(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return unix.EISDIR
	case st.Mode&0o111 == 0:
		return unix.EACCES
	}
	return nil
}
