package boot

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

// command is a request's command, ready to be executed.
type command struct {
	path string
	argv []string
	env  []string
	dir  string
	sys  syscall.SysProcAttr

	place int // dir, opened; -1 once it is closed
}

func (c *command) close() {
	if c.place >= 0 {
		_ = unix.Close(c.place)
	}
	c.place = -1
}

// check refuses what is no command at all.
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

// prepare finds the command's program and place. An exit says that it cannot be run, and why.
func (s *server) prepare(c *wire.Cmd) (command, *wire.Exit) {
	cmd := command{argv: c.Argv, env: s.environment(c), dir: s.directory(c.Dir), place: -1}
	cmd.sys.Setsid = true
	if !s.Single {
		id := uint32(agentID)
		if c.Root {
			id = 0
		}
		cmd.sys.Credential = &syscall.Credential{Uid: id, Gid: id}
	}
	if fd, err := openPlace(cmd.dir); err != nil {
		return cmd, refusal(cannotRun, "working directory "+cmd.dir, err)
	} else {
		cmd.place = fd
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

// refusal is the exit of a command that was not run.
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

// codeOf is the exit code for an error of execve or of the search for a program.
func codeOf(err error) int {
	if err == unix.ENOENT || err == unix.ENOTDIR {
		return notFound
	}
	return cannotRun
}

// environment adds what every program expects, where it is missing.
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

// variable finds a variable as programs do: the first counts.
func variable(env []string, name string) (value string, ok bool) {
	for _, s := range env {
		if len(s) > len(name) && s[len(name)] == '=' && s[:len(name)] == name {
			return s[len(name)+1:], true
		}
	}
	return "", false
}

// directory is where a command runs.
func (s *server) directory(dir string) string {
	switch {
	case dir == "":
		return s.Workdir
	case dir[0] != '/':
		return s.Workdir + "/" + dir
	}
	return dir
}

// openPlace opens a directory, but not through links like those of /proc/self/fd: in a child they lead where
// the helper's own descriptors lead, out of the sandbox.
func openPlace(path string) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS,
	})
}

// lookup finds a program as a shell does: a name with a slash is a path, any other is looked for in the
// directories of PATH. A file that cannot be executed is only the answer if there is no better one.
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

// absolute is where a path leads for a command that runs in dir.
func absolute(path, dir string) string {
	if path[0] == '/' {
		return path
	}
	return dir + "/" + path
}

// executable tells whether somebody may execute a file; whether this user may is for execve to say.
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
