package boot

import (
	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// world is the instance while it is being made.
type world struct {
	config *wire.Config
	trees  []int // the descriptor of each of config.Trees, -1 where it has a path
	root   int   // the new root, once it is mounted
}

// step is one thing that setup does. Its name is what the server is told when it fails.
type step struct {
	name string
	do   func(*world) error
}

// The order matters: what is found by a path of the host comes before the pivot, what the mapped root
// writes comes after it, and the bounds that nothing can take off again come last.
var steps = []step{
	{"take the instance's uids", (*world).identity},
	{"enter a cgroup namespace", (*world).cgroups},
	{"take the mounts apart from the host's", (*world).private},
	{"lay out the layers", (*world).layers},
	{"mount the root", (*world).mountRoot},
	{"mount /usr", (*world).mountUsr},
	{"mount a template's directory", (*world).mountMore},
	{"mount /proc", (*world).mountProc},
	{"mount /dev", (*world).mountDev},
	{"mount /tmp and /run", (*world).mountTemp},
	{"bring up the loopback", (*world).loopback},
	{"set the host name", (*world).hostname},
	{"enter the root", (*world).pivot},
	{"make the home directories", (*world).homes},
	{"write files", (*world).etc},
	{"set limits", (*world).limits},
	{"give up capabilities", (*world).bounds},
	{"filter system calls", (*world).filter},
}

// setup makes the instance's world out of what the server sent: file systems, root, network, limits, and
// at last the bounds. The descriptors are those that came with c; setup closes them. It is called once,
// before anything else runs in the instance, by an init function: that stays on its thread.
func setup(c *wire.Config, trees []int) error {
	defer wire.CloseAll(trees)
	w := &world{config: c, root: -1}
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

// assign gives each tree without a path the next descriptor.
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

// setupError says what could not be done. It is what package fmt would make, which would cost more
// memory than all of this package.
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
