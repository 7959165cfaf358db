// Package driver is the seam between Berth and whatever runs its instances.
//
// A [Driver] does five things: create, inspect, list, destroy and say its kind. Everything else an
// engine may be able to do is an optional interface ([Stopper], [Freezer], [Guester], [Filer]) found
// with [As]. Environment variables are not part of an instance: they travel with each command. Policies
// (retry, concurrency limits, metrics) are decorators of the same interface ([WithRetry], [WithLimit],
// [WithMetrics]) and never sit in a driver. Every driver passes the suite in drivertest.
package driver

import (
	"context"
	"iter"
	"time"

	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
)

// ID names an instance at its driver for as long as the instance exists. It is the durable
// identity; addresses and URLs never are.
type ID string

// Key is Berth's own name for an instance, known before the driver has answered: which sandbox it
// belongs to and which rebirth of it. An instance stays findable by its Key when the reply to
// Create was lost.
type Key struct {
	Sandbox     string // Berth's sandbox id, lower-case UUID
	Incarnation int64  // 1 for the first instance of a sandbox, then counting up
}

// Spec is what Create is asked to make.
type Spec struct {
	Key    Key
	Tenant string
	Labels map[string]string // kept with the instance and returned by List; never secrets
	Limits Limits

	Base     string            // what its root is made of; empty: the driver's default
	Mounts   []Mount           // further trees, read only
	Egress   []string          // what it may connect to, as host:port with *. for subdomains, or all; empty: nothing
	Services map[string]string // 127.0.0.1:port inside → the URL on the server's side that it leads to
}

// Mount shows a directory of the host inside, read only.
type Mount struct {
	Source string // on the host
	Target string // inside
}

// Limits bound one instance. Zero means the driver's default.
type Limits struct {
	CPU         float64 // cores
	MemoryBytes int64
	DiskBytes   int64
	DiskHard    bool // the disk limit is a file system's own, not watched from outside
	Processes   int64
}

// Phase is where an instance is in its life, in Berth's words.
type Phase string

// The phases a driver reports. A provider's state that fits none of them is PhaseUnknown, with the
// provider's own word in Status.Raw; nobody acts on it.
const (
	PhaseUnknown  Phase = "unknown"
	PhaseStarting Phase = "starting"
	PhaseRunning  Phase = "running"
	PhaseFrozen   Phase = "frozen" // memory kept, nothing scheduled
	PhaseStopped  Phase = "stopped"
	PhaseFailed   Phase = "failed" // exists, will never run again
)

// Status is what the driver says of one instance at one moment.
type Status struct {
	ID        ID
	Key       Key // zero where the listing entry did not carry it: such an entry is nobody's
	Tenant    string
	Phase     Phase
	Raw       string // the provider's own word
	Reason    string
	Labels    map[string]string // exactly those of the Spec
	CreatedAt time.Time
}

// Selector narrows List. Zero fields do not narrow.
type Selector struct {
	Sandbox string
	Tenant  string
}

// Driver makes, finds and ends instances. All methods are safe for concurrent use, honour the
// context's deadline, and report errors of the classes in errors.go. An ID is matched whole: a
// prefix of one, a provider's name or a path is an ID nobody has.
type Driver interface {
	// Kind is the driver's name in templates and rows: "fake", "local", "docker", …
	Kind() string

	// Create makes the instance named by spec.Key and returns once it runs. It is idempotent by
	// Key: a second Create of a live Key, running or not, makes nothing, changes nothing and
	// answers *ExistsError with the instance's status. A Key is free again once its instance is
	// destroyed. Two incarnations of one sandbox are two Keys; a provider with unique names may
	// refuse the second with an *ExistsError that carries the first. ErrInvalid makes nothing.
	// Any other error leaves open whether something was made.
	Create(ctx context.Context, spec Spec) (Status, error)

	// Inspect asks the driver about one instance, in one real round trip. ErrNotFound is a fact,
	// and the answer to an ID that could never have been one; any other error means that nothing
	// is known.
	Inspect(ctx context.Context, id ID) (Status, error)

	// List yields the instances Berth made here, stopped ones too. A yielded error ends the
	// sequence and makes all of it worthless: an unreadable list is not an empty list.
	List(ctx context.Context, sel Selector) iter.Seq2[Status, error]

	// Destroy ends the instance and its volume, whatever its phase. It is nil when the instance is
	// already gone.
	Destroy(ctx context.Context, id ID) error
}

// Stopper is a driver that can stop an instance and keep its files.
type Stopper interface {
	// Stop ends all processes of the instance, frozen ones too, and keeps its files; nil when
	// already stopped.
	Stop(ctx context.Context, id ID) error
	// Start makes the instance run: a stopped one again, a frozen one thawed; nil error when it
	// already runs.
	Start(ctx context.Context, id ID) (Status, error)
}

// Freezer is a driver that can hold an instance's processes in memory without running them.
type Freezer interface {
	// Freeze holds a running instance; nil when already frozen, ErrNotRunning when stopped.
	Freeze(ctx context.Context, id ID) error
	// Thaw lets a frozen instance run on; nil when it runs, ErrNotRunning when stopped.
	Thaw(ctx context.Context, id ID) error
}

// Guester is a driver whose instances have Berth's helper inside.
type Guester interface {
	// Guest connects to the helper of a running instance; a stopped or frozen one is ErrNotRunning.
	Guest(ctx context.Context, id ID) (guest.Conn, error)
	// Output reads what a process started in the instance wrote, whether the instance runs or not. It
	// is as guest.Process's; an unknown process yields guest.ErrNoProcess.
	Output(ctx context.Context, id ID, process string, after int64) iter.Seq2[guest.Chunk, error]
}

// Local is a driver whose instances are on the machine that its server runs on, and can be reached from
// there alone.
type Local interface{ Local() }

// Reporter is a driver that has something to say about how it works here, for people: what its
// instances are made with, and what is limited.
type Reporter interface{ Report() string }

// Filer is a driver that gets at an instance's files, whether it runs, is frozen or is stopped.
type Filer interface {
	// Files opens one of the instance's roots: files.WorkingDir or files.HomeDir.
	Files(ctx context.Context, id ID, root string) (files.FS, error)
}
