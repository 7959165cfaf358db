package pid1

import (
	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// world is the state of an instance during its setup.
type world struct {
	config *wire.Config
	trees  []int // the descriptors of config.Trees; -1 for a tree with a path
	root   int   // the new root directory; -1 until it is mounted
	sys    int   // the writable /proc/sys of the new root; -1 until it is mounted
}

// step is a step of setup. An error of the step starts with its name.
type step struct {
	name string
	do   func(*world) error
}

// The order of steps matters: those before "enter the root" use paths of the host; those after it write in the new
// root as the instance's root user; the last ones drop privileges for good.
var steps = []step{
	{"take the instance's uids", (*world).identity},
	{"enter a cgroup namespace", (*world).cgroups},
	{"take the mounts apart from the host's", (*world).private},
	{"lay out the layers", (*world).layers},
	{"mount the root", (*world).mountRoot},
	{"mount /usr", (*world).mountUsr},
	{"mount a template's directory", (*world).mountMore},
	{"mount /dev", (*world).mountDev},
	{"mount /proc", (*world).mountProc},
	{"mount /tmp and /run", (*world).mountTemp},
	{"bring up the loopback", (*world).loopback},
	{"set the host name", (*world).hostname},
	{"enter the root", (*world).pivot},
	{"make the home directories", (*world).homes},
	{"write files", (*world).etc},
	{"bound the kernel's counters", (*world).counters},
	{"set limits", (*world).limits},
	{"give up capabilities", (*world).bounds},
	{"filter system calls", (*world).filter},
}

// setup makes the instance as c describes it: file systems, root directory, network and limits. At the end it drops
// privileges. trees are the descriptors that were sent with c; setup closes them. It is called once, before any other
// process runs in the instance, from an init function: Go runs init functions on the main thread.
func setup(c *wire.Config, trees []int) error {
	defer wire.CloseAll(trees)
	w := &world{config: c, root: -1, sys: -1}
	if err := w.assign(trees); err != nil {
		return err
	}
	unix.Umask(0o022)
	for _, s := range steps {
		if err := s.do(w); err != nil {
			return &setupError{s.name, err}
		}
	}
	return unix.Close(w.root)
}

// assign sets w.trees: the next descriptor for each tree without a path, and -1 for the others.
func (w *world) assign(files []int) error {
	for _, t := range w.config.Trees {
		if t.Path != "" {
			w.trees = append(w.trees, -1)
			continue
		}
		if len(files) == 0 {
			return &setupError{"match descriptors to trees", unix.EBADMSG}
		}
		w.trees = append(w.trees, files[0])
		files = files[1:]
	}
	return nil
}

// setupError is the error of an operation of setup. It replaces fmt.Errorf: package fmt takes more memory than this
// whole package.
type setupError struct {
	doing string
	err   error
}

func (e *setupError) Error() string { return e.doing + ": " + e.err.Error() }
func (e *setupError) Unwrap() error { return e.err }

func failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	return &setupError{doing, err}
}
