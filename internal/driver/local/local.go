// Package local is the driver for instances on this machine, made of Linux namespaces and nothing else.
//
// An instance is a directory under [Options].Dir, named by its ID, and, while it runs, a process tree whose
// first process is this very program under another name (package boot). [Driver] makes and ends both; it
// never keeps one alive: an instance outlives the driver, and the next one finds it by its directory.
//
//	<id>/record.json  what was asked for; written before anything else and never changed
//	<id>/run.json     where this run's cgroups are; written before they are made, of no use after a reboot
//	<id>/made         the instance ran once: its files are worth keeping
//	<id>/reason       why its processes were ended, for people
//	<id>/sock         the helper listens here; whoever listens is the instance's first process
//	<id>/fs/          upper and work of its root; or <id>/disk.img, where the disk's limit is hard
//	<id>/spool/       what its processes write
//	base/             the root of instances that are made of the host
//	.new/             instances that are being claimed
//	.trash/           instances that are being removed
//
// An instance exists as long as its directory has its name. Whoever changes one holds the directory's
// lock. Claiming an ID is one rename, and so is giving it up, so that a process may die between any two
// steps: what it leaves is finished or removed by the next one ([New]).
//
// What an instance may see and do is decided in three places: here (namespaces, uids, layers, cgroups), in
// boot's setup (mounts, capabilities, the system call filter), and in the kernel. There are two tiers, and
// [Probe] finds out by trying which of them this machine can have.
package local

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/guest"
)

// Options are the driver's. Only Dir is required.
type Options struct {
	Dir   string        // where instances are kept; made if there is none
	Exe   string        // the program that becomes the helper, without cgo; empty: this one
	Tier  Tier          // empty: as Probe finds
	Grace time.Duration // for processes to end when the instance is stopped

	// DiskEvery is how often each instance's files are measured; negative: never.
	DiskEvery time.Duration
	Defaults  driver.Limits // for what a Spec leaves open

	// ReaderPatience is how long a process waits for a reader of its output that stands still; zero: 30 s.
	ReaderPatience time.Duration

	// Bases finds the directory of a base that is neither "host" nor an absolute path.
	Bases func(name string) (dir string, err error)

	// Attach is called for every instance that runs, once it does, with a connection that stays open
	// until detach has returned. It serves what leads out of the instance.
	Attach func(ctx context.Context, st driver.Status, spec driver.Spec, conn guest.Conn) (detach func())

	// At is called at named points of what the driver does, for tests.
	At func(point string, id driver.ID)

	Log *slog.Logger
}

// Defaults of Options.
const (
	DefaultGrace     = 2 * time.Second
	DefaultDiskEvery = 15 * time.Second
)

// DefaultLimits bound instances whose Spec and Options do not say.
var DefaultLimits = driver.Limits{CPU: 2, MemoryBytes: 2 << 30, DiskBytes: 10 << 30, Processes: 1024}

func (o Options) filled() Options {
	o.Exe = cmp.Or(o.Exe, "/proc/self/exe")
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	o.DiskEvery = cmp.Or(o.DiskEvery, DefaultDiskEvery)
	o.Defaults = fill(o.Defaults, DefaultLimits)
	if o.At == nil {
		o.At = func(string, driver.ID) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// fill takes what l leaves open from defaults.
func fill(l, defaults driver.Limits) driver.Limits {
	l.CPU = cmp.Or(l.CPU, defaults.CPU)
	l.MemoryBytes = cmp.Or(l.MemoryBytes, defaults.MemoryBytes)
	l.DiskBytes = cmp.Or(l.DiskBytes, defaults.DiskBytes)
	l.Processes = cmp.Or(l.Processes, defaults.Processes)
	return l
}

// Driver makes instances on this machine.
type Driver struct {
	opts   Options
	dir    string
	disk   disk
	groups cgroups
	exe    exe

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	work sync.WaitGroup // what goes on in the background
	tidy chan struct{}  // one element for each removal under way

	mu       sync.Mutex
	running  map[driver.ID]*running  // whose first process we know
	attached map[driver.ID]*attached // what Attach served
	removing map[string]bool         // what is being removed from the trash
	awaited  map[driver.ID]int       // how many wait to have an instance to themselves
	closed   bool

	skeletonMu sync.Mutex
	skeleton   *skeleton
}

var _ interface {
	driver.Driver
	driver.Stopper
	driver.Freezer
	driver.Guester
	driver.Filer
	driver.Local
	driver.Reporter
} = (*Driver)(nil)

// New opens a directory of instances: it finishes or removes what others left unfinished there, and
// attaches to what runs. With an empty Tier it tries first what this machine can do.
func New(ctx context.Context, opts Options) (*Driver, error) {
	if opts.Tier == "" {
		report, err := Probe(ctx, opts)
		if err != nil {
			return nil, err
		}
		if report.Tier == TierNone {
			return nil, report.refusal()
		}
		opts.Tier = report.Tier
	}
	return newOn(opts, machine{})
}

// newOn opens the driver on a disk.
func newOn(opts Options, disk disk) (*Driver, error) {
	d, err := open(opts, disk)
	if err != nil {
		return nil, err
	}
	d.background(func() { _, _ = d.hostBase() }) // before somebody has to wait for it
	d.sweep()
	d.background(d.tend)
	return d, nil
}

// open makes the driver without looking at what is there.
func open(opts Options, disk disk) (*Driver, error) {
	opts = opts.filled()
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("open directory of instances: %w", err)
	}
	for _, sub := range []string{"", newDir, trashDir, baseDir} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("open directory of instances: %w", err)
		}
	}
	for _, path := range []string{dir, filepath.Dir(dir)} {
		if err := disk.sync(path); err != nil {
			return nil, fmt.Errorf("open directory of instances: %w", err)
		}
	}
	groups, err := findCgroups(opts.Tier)
	if err != nil {
		return nil, err
	}
	program, err := openExe(opts.Exe, opts.Tier)
	if err != nil {
		return nil, err
	}
	d := &Driver{
		opts: opts, dir: dir, disk: disk, groups: groups, exe: program, tidy: make(chan struct{}, removals),
		running: map[driver.ID]*running{}, attached: map[driver.ID]*attached{}, removing: map[string]bool{}, awaited: map[driver.ID]int{},
	}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d, nil
}

// Kind is "local".
func (d *Driver) Kind() string { return "local" }

// Tier is what the instances are made with.
func (d *Driver) Tier() Tier { return d.opts.Tier }

// Local says that the instances are on this machine.
func (d *Driver) Local() {}

// Report is what the instances are made with, and what is limited, in words.
func (d *Driver) Report() string {
	return strings.Join(append([]string{"tier " + string(d.opts.Tier)}, notes(d.opts)...), "; ")
}

// background runs do until it returns or, if it heeds d.ctx, until Close.
func (d *Driver) background(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.work.Go(do)
	}
}

// Close ends what goes on in the background and waits for it. The instances run on.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.stop()
	d.detachAll()
	d.work.Wait()
	d.groups.leave()
	d.exe.close()
	return nil
}
