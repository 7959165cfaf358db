// Package local is the driver for instances on this machine. It makes them with Linux namespaces and needs no container
// software.
//
// An instance is a directory under [Options].Dir, named by its ID. While it runs, it also is a process tree whose
// first process is the helper (package pid1), which runs this same program under another name. [Driver] makes and
// ends both. An instance runs on when its driver ends, and the next driver finds it by its directory.
//
//	<id>/record.json  the request; written first, changed only when the files move into an image
//	<id>/run.json     the cgroups of the present run; written before they are made, invalid after a reboot
//	<id>/made         exists if the instance has run: its files must be kept
//	<id>/reason       why its processes were ended, or a problem of its disk, for people
//	<id>/sock         the socket on which the helper listens
//	<id>/fs/          upper and work directory of its root; or <id>/disk.img, if the disk limit is hard
//	<id>/spool/       the output of its processes
//	.disks/           images prepared for the next instances; each server has a directory in it
//	base/             the root of instances whose base is the host
//	.new/             instances that are being claimed
//	.trash/           instances that are being removed
//
// An instance exists as long as its directory has its name. Each change of an instance holds the directory's
// lock. An ID is claimed with one rename and released with one rename. So a process may die between any two
// steps: the next driver finishes or removes its unfinished instances ([New]).
//
// Three parts isolate an instance: this package (namespaces, uids, layers, cgroups), the setup of the helper
// (mounts, capabilities, the system call filter), and the kernel. There are several tiers of isolation ([Tier]).
// [Probe] makes a trial instance to find the best one that this machine supports.
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

// Options are the options of a Driver. Only Dir is required.
type Options struct {
	Dir   string        // directory of the instances; made if it does not exist
	Exe   string        // program of the helper, built without cgo; empty: this program
	Tier  Tier          // empty: the result of Probe
	Grace time.Duration // time for processes to end when the instance is stopped; zero: DefaultGrace

	// DiskEvery is the interval for measuring each instance's files; zero: DefaultDiskEvery; negative: never.
	DiskEvery time.Duration
	Defaults  driver.Limits // limits that a Spec does not set; zero fields: DefaultLimits

	// ReaderPatience is the time that a process waits for a reader of its output that does not read; zero: 30 s.
	ReaderPatience time.Duration

	// Bases finds the directory of a base that is neither "host" nor an absolute path.
	Bases func(name string) (dir string, err error)

	// Attach is called once for each run of an instance. It serves the connections out of the instance
	// until detach is called. conn stays open until detach has returned.
	Attach func(ctx context.Context, st driver.Status, spec driver.Spec, conn guest.Conn) (detach func())

	// At is called at named points of the driver's work, for tests.
	At func(point string, id driver.ID)

	Log *slog.Logger
}

// Defaults of Options.
const (
	DefaultGrace     = 2 * time.Second
	DefaultDiskEvery = 15 * time.Second
)

// DefaultLimits are the limits of instances whose Spec and Options set none.
var DefaultLimits = driver.Limits{CPU: 2, MemoryBytes: 2 << 30, DiskBytes: 10 << 30, Processes: 512}

func (o Options) withDefaults() Options {
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

// fill returns l with the zero fields taken from defaults.
func fill(l, defaults driver.Limits) driver.Limits {
	l.CPU = cmp.Or(l.CPU, defaults.CPU)
	l.MemoryBytes = cmp.Or(l.MemoryBytes, defaults.MemoryBytes)
	l.DiskBytes = cmp.Or(l.DiskBytes, defaults.DiskBytes)
	l.Processes = cmp.Or(l.Processes, defaults.Processes)
	return l
}

// Driver makes instances on this machine.
type Driver struct {
	// Parts of the driver, by what they are about.
	attachments attachments
	processes   processes
	runs        runs
	access      fileAccess
	dirs        instanceDirs
	disks       disks
	governor    governor
	trash       trash
	sweeper     sweeper

	opts   Options
	dir    string
	disk   disk
	groups cgroups
	io     ioBounds
	exe    exe

	ctx          context.Context // ends with Close
	stop         context.CancelFunc
	work         sync.WaitGroup // the background goroutines
	removalSlots chan struct{}  // one element for each removal in progress
	// meters has one element for each instance that is being measured.
	meters chan struct{}

	mu       sync.Mutex
	running  map[driver.ID]*running  // the known first processes of instances
	attached map[driver.ID]*attached // the results of Options.Attach
	removing map[string]bool         // names in the trash that are being removed
	awaited  map[driver.ID]int       // number of requests that wait for the exclusive lock of an instance
	closed   bool

	images images

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
	driver.Limiter
} = (*Driver)(nil)

// New opens a directory of instances. It finishes or removes unfinished instances of other drivers and
// attaches to running instances. If opts.Tier is empty, it calls Probe first.
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

// newOn is New with a known tier and the given disk.
func newOn(opts Options, disk disk) (*Driver, error) {
	d, err := open(opts, disk)
	if err != nil {
		return nil, err
	}
	d.background(func() { _, _ = d.hostBase() }) // in advance, so that no request has to wait for it
	d.sweeper.sweep()
	d.images.spare = spareImages
	d.background(func() { _, _ = d.images.supported(d.ctx) })
	d.background(d.maintain)
	if len(d.groups) > 0 {
		d.background(d.governor.watchUncharged)
		d.background(d.governor.govern)
	}
	d.io.sweep()
	d.raiseOpenFiles()
	d.refuseSendTimes()
	return d, nil
}

// open makes the driver. It does not look at the instances and starts no background work.
func open(opts Options, disk disk) (*Driver, error) {
	opts = opts.withDefaults()
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("open directory of instances: %w", err)
	}
	for _, sub := range []string{"", newDir, trashDir, disksDir, baseDir} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("open directory of instances: %w", err)
		}
	}
	// The directory may contain setuid files of root. No other user may reach them.
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open directory of instances: %w", err)
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
	d := assemble(&Driver{
		opts: opts, dir: dir, disk: disk, groups: groups, exe: program, removalSlots: make(chan struct{}, removals), meters: make(chan struct{}, meterSlots),
		running: map[driver.ID]*running{}, attached: map[driver.ID]*attached{}, removing: map[string]bool{}, awaited: map[driver.ID]int{},
	})
	if opts.Tier == TierRoot {
		d.io = findIOBounds(thisHost)
	}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d, nil
}

// assemble connects the parts with their driver.
func assemble(d *Driver) *Driver {
	d.attachments, d.processes, d.runs = attachments{d}, processes{d}, runs{d}
	d.access, d.dirs, d.disks = fileAccess{d}, instanceDirs{d}, disks{d}
	d.governor, d.trash, d.sweeper = governor{d}, trash{d}, sweeper{d}
	d.images.d = d
	return d
}

// Kind returns "local".
func (d *Driver) Kind() string { return "local" }

// Tier returns the tier of the driver's instances.
func (d *Driver) Tier() Tier { return d.opts.Tier }

// Local implements driver.Local.
func (d *Driver) Local() {}

// Report describes, for people, the tier of the instances and their limits.
func (d *Driver) Report() string {
	return strings.Join(append([]string{d.opts.Tier.Explain(), d.disks.describe(d.ctx)}, notes(d.opts)...), "; ")
}

// Unlimited describes, for people, the resources that are not limited. It returns nil if the driver has cgroups.
func (d *Driver) Unlimited() []string {
	if len(d.groups) > 0 {
		return nil
	}
	return []string{noCgroup}
}

// noCgroup is the note for ordinary users to whom no cgroup was delegated.
const noCgroup = "MEMORY IS NOT LIMITED, and neither are processors: no cgroup is delegated to the server's user, so one sandbox can use all memory of the machine"

// background runs do in a goroutine, for which Close waits. It does nothing after Close. A long do must end when d.ctx
// ends.
func (d *Driver) background(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.work.Go(do)
	}
}

// Close ends the background work and waits for it. The instances continue to run.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.stop()
	d.images.shut()
	d.attachments.detachAll()
	d.work.Wait()
	d.sweeper.unmountStopped()
	d.images.close()
	d.groups.removeParents()
	d.exe.close()
	return nil
}
