// Package driver defines the interface between Berth and the systems that run its instances.
//
// A [Driver] creates, inspects, lists and destroys instances, and returns its kind. Every other ability is
// an optional interface ([Stopper], [Freezer], [Guester], [Filer], [Exposer]), which [As] returns. Environment
// variables are not part of an instance: each command carries them. Policies (retry, concurrency limits,
// metrics) are decorators of the same interface ([WithRetry], [WithLimit], [WithMetrics]) and never part
// of a driver. Every driver passes the suite in drivertest.
package driver

import (
	"context"
	"iter"
	"time"

	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
)

// ID is the driver's name of an instance. It does not change while the instance exists, unlike addresses
// and URLs.
type ID string

// Key is Berth's name of an instance: its sandbox and its incarnation. It is known before Create, so
// that the instance can be found if the reply of Create was lost.
type Key struct {
	Sandbox     string // Berth's sandbox id, lower-case UUID
	Incarnation int64  // 1 for the first instance of a sandbox, +1 for each further one
}

// Spec describes the instance that Create makes.
type Spec struct {
	Key    Key
	Tenant string
	Labels map[string]string // stored with the instance and returned by List; they must not contain secrets
	Limits Limits

	Base     string            // base of its root file system; empty: the driver's default
	Mounts   []Mount           // further directories, read only
	Egress   []string          // allowed destinations: host:port, with *. for subdomains, or all; empty: none
	Services map[string]string // 127.0.0.1:port inside → the URL that the server forwards it to
}

// Mount is a directory of the host that is mounted in the instance, read only.
type Mount struct {
	Source string // path on the host
	Target string // path in the instance
}

// Limits bound one instance. Zero means the driver's default.
type Limits struct {
	CPU         float64 // cores
	MemoryBytes int64
	DiskBytes   int64
	DiskHard    bool // the kernel must enforce the disk limit; without it the driver may still choose that
	DiskSoft    bool // the driver measures the disk use from time to time, even if the limit could be hard
	Processes   int64
}

// Phase is the state of an instance.
type Phase string

// The phases that a driver reports. PhaseUnknown stands for every other state of a provider, with the provider's
// word for it in Status.Raw. The engine does nothing with an instance in PhaseUnknown.
const (
	PhaseUnknown  Phase = "unknown"
	PhaseStarting Phase = "starting"
	PhaseRunning  Phase = "running"
	PhaseFrozen   Phase = "frozen" // its processes are in memory and do not run
	PhaseStopped  Phase = "stopped"
	PhaseFailed   Phase = "failed" // it exists and can never run again
)

// Status is the driver's report on one instance at one moment.
type Status struct {
	ID        ID
	Key       Key // zero in a listing if the entry had none; the owner of the instance is then not known
	Tenant    string
	Phase     Phase
	Raw       string            // the provider's word for the phase
	Reason    string            // a problem of the instance, for people; empty: none
	Disk      string            // how its disk limit is enforced, for people; empty: not known
	Labels    map[string]string // the labels of the Spec
	CreatedAt time.Time
}

// Selector limits List to a sandbox or a tenant. Zero fields select everything.
type Selector struct {
	Sandbox string
	Tenant  string
}

// Driver makes, finds and ends instances. All methods are safe for concurrent use, obey the context's deadline,
// and return errors of the classes in errors.go. Only a complete ID names an instance: a prefix of an ID, a provider's
// name or a path is an unknown ID.
type Driver interface {
	// Kind returns the driver's name in templates and rows: "fake", "local", "docker", …
	Kind() string

	// Create makes the instance with spec.Key and returns once it runs. If an instance with this
	// Key exists, running or not, Create changes nothing and returns an *ExistsError with its
	// status. A Key is free again once its instance is destroyed. Two incarnations of one sandbox
	// are two Keys. A provider with unique names may refuse the second of them with an
	// *ExistsError about the first. After ErrInvalid nothing was made. After any other error an
	// instance may exist or not.
	Create(ctx context.Context, spec Spec) (Status, error)

	// Inspect returns the status of one instance. It asks the provider each time. ErrNotFound
	// means that the instance does not exist, also if the ID is malformed. After any other error
	// nothing is known about the instance.
	Inspect(ctx context.Context, id ID) (Status, error)

	// List yields the instances that Berth made here, stopped ones too. A yielded error ends the
	// sequence. The list is then incomplete, so nothing follows from the absence of an instance.
	List(ctx context.Context, sel Selector) iter.Seq2[Status, error]

	// Destroy ends the instance in any phase and deletes its files. It returns nil if the instance
	// does not exist.
	Destroy(ctx context.Context, id ID) error
}

// Stopper is a driver that can stop an instance and keep its files.
type Stopper interface {
	// Stop ends all processes of the instance, frozen ones too, and keeps its files. It returns nil
	// if the instance is already stopped.
	Stop(ctx context.Context, id ID) error
	// Start runs a stopped instance again, or thaws a frozen one. It changes nothing if the
	// instance already runs.
	Start(ctx context.Context, id ID) (Status, error)
}

// Freezer is a driver that can keep an instance's processes in memory without running them.
type Freezer interface {
	// Freeze suspends a running instance. It returns nil if the instance is already frozen and
	// ErrNotRunning if it is stopped.
	Freeze(ctx context.Context, id ID) error
	// Thaw resumes a frozen instance. It returns nil if the instance already runs and
	// ErrNotRunning if it is stopped.
	Thaw(ctx context.Context, id ID) error
}

// Guester is a driver whose instances run Berth's helper.
type Guester interface {
	// Guest connects to the helper of a running instance. It returns ErrNotRunning for a stopped or
	// frozen one.
	Guest(ctx context.Context, id ID) (guest.Conn, error)
	// Output yields the output of a process of the instance, in any phase of the instance. It works
	// like guest.Process.Output. For an unknown process it yields guest.ErrNoProcess.
	Output(ctx context.Context, id ID, process string, after int64) iter.Seq2[guest.Chunk, error]
}

// Local is a driver whose instances run on the server's own machine and can only be reached from there.
type Local interface{ Local() }

// Reporter is a driver that can describe, for people, how it isolates and limits instances on this machine.
type Reporter interface{ Report() string }

// Limiter is a driver that may not be able to enforce every limit on this machine.
type Limiter interface {
	// Unlimited describes, for people, the resources that are not limited, and why.
	Unlimited() []string
}

// Filer is a driver that can open the files of a running, frozen or stopped instance.
type Filer interface {
	// Files opens one directory of the instance: files.WorkingDir or files.HomeDir.
	Files(ctx context.Context, id ID, root string) (files.FS, error)
}

// Exposer is a driver whose provider serves ports of instances at its own URLs.
type Exposer interface {
	// Expose returns a URL of a port of a running instance, which may expire after lifetime. A provider with limits may
	// choose another time. It returns ErrNotRunning for a stopped instance. Every call may return another URL, and the
	// URLs of earlier calls may end with it. Nothing needs to listen at the port.
	Expose(ctx context.Context, id ID, port uint16, lifetime time.Duration) (Exposure, error)
}

// Exposure is a URL at which a provider serves a port of an instance. It names nothing: the provider may end it at any time.
type Exposure struct {
	URL       string    // http or https; its path and query begin those of every request
	Header    string    // the name of the header in which requests carry Token
	Token     string    // empty: the URL is enough
	ExpiresAt time.Time // zero: not known
}
