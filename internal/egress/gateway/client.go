package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/egress"
)

// Options configure a Client.
type Options struct {
	Dir     string // directory of the sockets; made if it does not exist
	Program string // the program of the process: a berth binary
	Log     *slog.Logger
	Meter   egress.Meter // counts the bytes of all sandboxes, also those from before this server; may be nil
	Lost    func()       // called when the process has ended although sandboxes need it; may be nil
}

// Client is the server's side of the process.
type Client struct {
	o    Options
	dir  *dir
	own  string // name of the socket
	stop context.CancelFunc
	done chan struct{}

	sources map[string]*source // by name of the socket; for poll alone

	mu       sync.Mutex
	closed   bool
	attached map[string]*attachment // by instance
}

// attachment is an instance that the process is to serve.
type attachment struct {
	instance string
	inside   egress.Listener
	spec     egress.Spec
	ctx      context.Context // ends with the attachment
	end      context.CancelFunc

	mu      sync.Mutex
	process string  // id of the process that serves it
	run     int64   // 0: unknown
	counted traffic // traffic of the run that is counted

	failed bool // the last attempt to attach it again failed; for poll alone
}

// New opens the directory and begins to follow the process there, if an earlier server has started one.
func New(o Options) (*Client, error) { return newClient(o, protocol) }

func newClient(o Options, protocol int) (*Client, error) {
	d, err := openDir(o.Dir)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Client{
		o: o, dir: d, own: socketName(protocol), stop: stop, done: make(chan struct{}),
		sources: map[string]*source{}, attached: map[string]*attachment{},
	}
	go c.follow(ctx)
	return c, nil
}

// Close ends the client. The process serves on, and detach of an attachment does nothing from now on.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	<-c.done
	return c.dir.close()
}

// Attach lets the process serve a spec on listeners inside an instance, until detach is called or the instance ends. The
// process may do so already, for an earlier server: connections that the spec allows go on. An empty spec ends what
// the process may serve. The fields of the spec that are not encoded have no effect, but for Meter.
//
// If inside has a method Pidfd, as guest.Local has, the process notices the end of the instance also without a server.
func (c *Client) Attach(ctx context.Context, instance string, inside egress.Listener, spec egress.Spec) (detach func(), err error) {
	if len(spec.Rules) == 0 && len(spec.Services) == 0 {
		_, err := c.dir.ask(ctx, c.own, &request{Op: opDetach, Instance: instance}, nil)
		if err != nil && !errors.Is(err, errGone) {
			return nil, err
		}
		return func() {}, nil
	}
	a := &attachment{instance: instance, inside: inside, spec: spec}
	a.ctx, a.end = context.WithCancel(context.Background())
	c.mu.Lock()
	c.attached[instance] = a
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return nil, os.ErrClosed
	}
	if err := c.serve(ctx, a); err != nil {
		c.remove(a)
		return nil, err
	}
	return func() { c.detach(a) }, nil
}

// Refresh hands the spec of an instance to the process again, because its headers have changed. An instance that is not
// attached needs nothing.
func (c *Client) Refresh(ctx context.Context, instance string) error {
	c.mu.Lock()
	a := c.attached[instance]
	c.mu.Unlock()
	if a == nil {
		return nil
	}
	return c.serve(ctx, a)
}

// remove reports whether the client was open.
func (c *Client) remove(a *attachment) (open bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached[a.instance] == a {
		delete(c.attached, a.instance)
	}
	a.end()
	return !c.closed
}

func (c *Client) detach(a *attachment) {
	if !c.remove(a) {
		return // the next server takes it up
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, err := c.dir.ask(context.Background(), c.own, &request{Op: opDetach, Instance: a.instance, Run: a.run}, nil)
	if err != nil && !errors.Is(err, errGone) {
		c.o.Log.Warn("close the way out of a sandbox", "sandbox_id", a.spec.Sandbox, "error", err)
	}
}

// serve hands an instance's listeners to the process. It starts the process if there is none.
func (c *Client) serve(ctx context.Context, a *attachment) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.ctx.Err(); err != nil {
		return err
	}
	r := &request{Op: opAttach, Instance: a.instance, Spec: &a.spec}
	files, err := a.files(ctx, r)
	defer closeFiles(files)
	if err != nil {
		return err
	}
	before := a.run
	a.run = 0 // the process may begin a run although its reply does not arrive
	answer, err := c.dir.ask(ctx, c.own, r, files)
	for range 3 {
		if !errors.Is(err, errGone) {
			break
		}
		if err := c.dir.start(c.o.Program, c.own); err != nil {
			return err
		}
		answer, err = c.dir.ask(ctx, c.own, r, files)
	}
	if err != nil {
		return err
	}
	if a.process != answer.Process || before != answer.Run {
		a.counted = traffic{}
	}
	a.process, a.run = answer.Process, answer.Run
	return nil
}

// files opens the listeners of the attachment, and the helper's descriptor, and names them in the request.
func (a *attachment) files(ctx context.Context, r *request) (files []*os.File, err error) {
	listeners, err := egress.Listen(ctx, a.inside, a.spec)
	if err != nil {
		return nil, err
	}
	for _, port := range slices.Sorted(maps.Keys(listeners)) {
		l := listeners[port]
		defer l.Close()
		f, err := copyOf(l)
		if err != nil {
			return files, fmt.Errorf("hand over the listener of port %d: %w", port, err)
		}
		files, r.Ports = append(files, f), append(r.Ports, port)
	}
	if h, ok := a.inside.(interface {
		Pidfd(ctx context.Context) (*os.File, error)
	}); ok {
		f, err := h.Pidfd(ctx)
		if err != nil {
			return files, err
		}
		files, r.Helper = append(files, f), true
	}
	return files, nil
}

// DrainOthers makes processes of other protocols finish their connections and end. Call it when the running instances are
// attached.
func (c *Client) DrainOthers(ctx context.Context) error {
	return c.dir.drain(ctx, func(name string) bool { return name != c.own })
}

// Drain makes all processes of a directory finish their connections and end. It is for a server that serves the ways
// out by itself.
func Drain(ctx context.Context, path string) error {
	return withDir(path, func(d *dir) error { return d.drain(ctx, func(string) bool { return true }) })
}

// End lets all processes of a directory end as soon as they serve no instance, and waits a moment for that. Without it
// they end some seconds later.
func End(ctx context.Context, path string) error {
	return withDir(path, func(d *dir) error { return d.end(ctx) })
}

// withDir opens a directory, if it exists.
func withDir(path string, do func(*dir) error) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	d, err := openDir(path)
	if err != nil {
		return err
	}
	return errors.Join(do(d), d.close())
}

func (d *dir) drain(ctx context.Context, which func(name string) bool) error {
	names, err := d.sockets()
	for _, name := range names {
		if which(name) {
			err = errors.Join(err, d.tell(ctx, name, opDrain))
		}
	}
	return err
}

// endTime is how long end waits for processes to notice that their instances have ended.
const endTime = 5 * time.Second

func (d *dir) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	names, err := d.sockets()
	for _, name := range names {
		err = errors.Join(err, d.tell(ctx, name, opEnd), d.awaitEnd(ctx, name))
	}
	return err
}

// tell sends a request without arguments. A process that is gone needs none.
func (d *dir) tell(ctx context.Context, name, op string) error {
	_, err := d.ask(ctx, name, &request{Op: op}, nil)
	if errors.Is(err, errGone) {
		return d.removeDead(name)
	}
	return err
}

// awaitEnd waits until a process has ended, and removes its socket. It is no error if it goes on when ctx ends: it serves
// an instance.
func (d *dir) awaitEnd(ctx context.Context, name string) error {
	for {
		c, err := net.DialUnix("unix", nil, d.address(name))
		if err != nil {
			if errors.Is(wrapGone(err), errGone) {
				err = d.removeDead(name)
			}
			return err
		}
		_ = c.Close()
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
}
