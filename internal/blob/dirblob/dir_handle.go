package dirblob

import (
	"errors"
	"path"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// dirHandle is an open folder below objects. The names of the folder and its parents are on stable storage. The
// handle always refers to the same folder: if that folder was removed, creating a file in it fails with ENOENT,
// even if a new folder has the same path.
type dirHandle struct {
	folder
	path  string
	users int
	syncs syncs
}

// syncNames writes the names in the folder to stable storage.
func (s *dirHandle) syncNames() error { return s.syncs.do(s.sync) }

// dirHandles keeps folders open, so that their parents need not be synced for every object.
type dirHandles struct {
	root *dirHandle
	mu   sync.Mutex
	open map[string]*dirHandle
}

const maxHandles = 128

func newDirHandles(objects folder) *dirHandles {
	return &dirHandles{root: &dirHandle{folder: objects}, open: map[string]*dirHandle{}}
}

// take opens the folder at the path, and creates it if it is missing. The caller must call give.
func (c *dirHandles) take(at string) (*dirHandle, error) {
	if at == "" {
		return c.root, nil
	}
	if s := c.find(at); s != nil {
		return s, nil
	}
	// If a folder is removed concurrently, the folder and its parents are opened again.
	for try := 0; ; try++ {
		s, err := c.openOrCreate(at)
		if err == nil || !errors.Is(err, unix.ENOENT) || try == maxTries {
			return s, err
		}
	}
}

// maxTries limits the attempts to create a name in a folder that is removed concurrently.
const maxTries = 100

// openOrCreate opens or creates a folder in its parent, and syncs its name.
func (c *dirHandles) openOrCreate(at string) (*dirHandle, error) {
	parent, err := c.take(strings.TrimSuffix(path.Dir("/" + at)[1:], "/"))
	if err != nil {
		return nil, err
	}
	defer c.give(parent)
	name := path.Base(at)
	f, err := parent.sub(name)
	if errors.Is(err, unix.ENOENT) {
		if err = parent.mkdir(name); err == nil || errors.Is(err, unix.EEXIST) {
			f, err = parent.sub(name)
		}
	}
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			c.drop(parent)
		}
		return nil, err
	}
	// An existing folder needs the sync too, because its creator may not have synced it yet.
	if err := parent.syncNames(); err != nil {
		_ = f.close()
		return nil, err
	}
	return c.add(at, f), nil
}

func (c *dirHandles) find(at string) *dirHandle {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.open[at]
	if s != nil {
		s.users++
	}
	return s
}

// add keeps an open folder. If another goroutine has added the same folder, add returns that handle.
func (c *dirHandles) add(at string, f folder) *dirHandle {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.open[at]; s != nil {
		_ = f.close()
		s.users++
		return s
	}
	for old, s := range c.open {
		if len(c.open) < maxHandles {
			break
		}
		if s.users == 0 {
			delete(c.open, old)
			_ = s.close()
		}
	}
	s := &dirHandle{folder: f, path: at, users: 1}
	c.open[at] = s
	return s
}

// give releases a handle that take returned.
func (c *dirHandles) give(s *dirHandle) {
	if s == c.root {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.users--
	if s.users == 0 && c.open[s.path] != s {
		_ = s.close()
	}
}

// drop forgets a removed folder. Its current users must still call give.
func (c *dirHandles) drop(s *dirHandle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[s.path] == s {
		delete(c.open, s.path)
	}
}

func (c *dirHandles) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, s := range c.open {
		delete(c.open, at)
		_ = s.close()
	}
}

// syncs lets concurrent callers share a sync. Callers that arrive during a sync share the next one, because each
// needs a sync that starts after its change.
type syncs struct {
	mu   sync.Mutex
	next *syncRound
	turn sync.Mutex
}

type syncRound struct {
	done chan struct{}
	err  error
}

func (g *syncs) do(sync func() error) error {
	g.mu.Lock()
	round := g.next
	first := round == nil
	if first {
		round = &syncRound{done: make(chan struct{})}
		g.next = round
	}
	g.mu.Unlock()
	if !first {
		<-round.done
		return round.err
	}
	g.turn.Lock()
	g.mu.Lock()
	g.next = nil
	g.mu.Unlock()
	round.err = sync()
	g.turn.Unlock()
	close(round.done)
	return round.err
}
