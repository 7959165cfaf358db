package dirblob

import (
	"errors"
	"path"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// shelf is an open folder below objects, whose own name, and those above it, outlive a power loss. While
// it is open it is the same folder: where somebody removed it, putting something into it fails with
// ENOENT, whatever has its path by then.
type shelf struct {
	folder
	path  string
	users int
	syncs syncs
}

// keep makes the names in the folder outlive a power loss.
func (s *shelf) keep() error { return s.syncs.do(s.sync) }

// shelves keeps folders open that objects are put into, so that the folders above are synced once, and
// not for every object.
type shelves struct {
	root *shelf
	mu   sync.Mutex
	open map[string]*shelf
}

const maxShelves = 128

func newShelves(objects folder) *shelves {
	return &shelves{root: &shelf{folder: objects}, open: map[string]*shelf{}}
}

// take opens the folder at the path, and makes it where there is none. It must be given back.
func (c *shelves) take(at string) (*shelf, error) {
	if at == "" {
		return c.root, nil
	}
	if s := c.find(at); s != nil {
		return s, nil
	}
	// A folder that somebody removes meanwhile is made anew, from its parent on.
	for try := 0; ; try++ {
		s, err := c.settle(at)
		if err == nil || !errors.Is(err, unix.ENOENT) || try == maxTries {
			return s, err
		}
	}
}

// maxTries bounds how often a folder may vanish under a writer.
const maxTries = 100

// settle opens a folder in its parent and sees that its name is kept.
func (c *shelves) settle(at string) (*shelf, error) {
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
	// Also when it was there: whoever made it may not have synced it, or may be about to.
	if err := parent.keep(); err != nil {
		_ = f.close()
		return nil, err
	}
	return c.add(at, f), nil
}

func (c *shelves) find(at string) *shelf {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.open[at]
	if s != nil {
		s.users++
	}
	return s
}

// add keeps an open folder, unless somebody was faster.
func (c *shelves) add(at string, f folder) *shelf {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.open[at]; s != nil {
		_ = f.close()
		s.users++
		return s
	}
	for old, s := range c.open {
		if len(c.open) < maxShelves {
			break
		}
		if s.users == 0 {
			delete(c.open, old)
			_ = s.close()
		}
	}
	s := &shelf{folder: f, path: at, users: 1}
	c.open[at] = s
	return s
}

// give gives a shelf back.
func (c *shelves) give(s *shelf) {
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

// drop forgets a folder that is gone; its users still give it back.
func (c *shelves) drop(s *shelf) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[s.path] == s {
		delete(c.open, s.path)
	}
}

func (c *shelves) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, s := range c.open {
		delete(c.open, at)
		_ = s.close()
	}
}

// syncs lets those who come while a sync is under way share the next one: each needs one that begins
// after its change.
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
