// Package sandbox is Berth's pure core: what a sandbox is, which states it may be in, and what to do
// next about it.
//
// [Sandbox] is the durable record, [Owner] whom it belongs to, [State] where it is and [Want] where
// it should be. [Next] looks a transition up in the matrix. [Plan] decides: given the record, what
// the driver was seen to have, and a [Policy], it returns steps for the engine to take and the time
// to look again. Nothing here does I/O or reads a clock.
package sandbox

import (
	"cmp"
	"time"

	"github.com/berthdev/berth/api"
)

// InstanceID is the driver's durable name for an instance; empty when there is none.
type InstanceID string

// Sandbox is the durable record of one sandbox. It outlives the instances under it.
type Sandbox struct {
	ID    string
	Name  string // empty when it has none
	Owner Owner
	Spec  Spec
	// Account and Agent are those of the tenant that it was made for; empty for none.
	Account, Agent string
	// Prefix of its versions in the object store, fixed at birth. Empty for one from before prefixes were recorded.
	Prefix string
	Host   string // machine that a local instance is pinned to; empty for drivers reachable from anywhere

	State     State
	Want      Want
	DeletedAt time.Time // set once, never cleared: makes gone final

	Generation  int64 // epoch of the newest lease; fences every write to State, Instance, Incarnation, Synced, Failure
	Incarnation int64 // counts Creates, raised before each
	Instance    InstanceID
	Left        int64 // the newest incarnation that was left on a machine when that was forgotten; what is found of it is kept
	Synced      SyncMark
	Failure     *Failure
	Recovered   Recoveries // how often it came back by itself of late
	Finalizers  []string   // what is left to do before it has ended, in this order

	SkipSave bool  // its end was asked for without a last save
	Purge    Purge // whether its versions go with it

	UnsavedSince time.Time // files may differ from the newest version since then; zero: all is saved
	ChangedAt    time.Time // last use that may have changed a file
	SaveFailure  *Failure  // why the last save by a timer failed
	Restored     Restored  // what the last start brought back
	Lost         Lost      // what the last lost instance took with it

	CreatedAt   time.Time
	StartedAt   time.Time // when the present instance became ready
	ActiveAt    time.Time // last use
	ProbedAt    time.Time
	DestroyedAt time.Time // when an instance was last confirmed lost or ended
	HeldUntil   time.Time // end of the longest hold: a turn, a terminal, preview traffic
	DueAt       time.Time // when the engine looks again; zero: only when asked
}

// Purge says whether the versions of a sandbox are removed when it is deleted.
type Purge string

// The answers. PurgeUnknown is a sandbox that a server deleted which kept its answer in the object store.
const (
	PurgeUnknown Purge = ""
	PurgeNo      Purge = "no"
	PurgeYes     Purge = "yes"
)

// Spec is what the sandbox was asked to be. Two creates under one name must agree in the fields
// they both give.
type Spec struct {
	Template string
	Driver   string
	Profile  string
	Env      map[string]string
	Metadata map[string]string
}

// SyncMark is the workspace version that this incarnation restored or pushed. Only an incarnation
// that has one, or was born empty, may push.
type SyncMark struct {
	Version     string
	Incarnation int64
	SavedAt     time.Time // of a mark that a restore returns: when the version was saved; not stored
}

// Restored is the version that a start brought back into the workspace. The zero Restored: none.
type Restored struct {
	Version string
	SavedAt time.Time // when that version was saved
	At      time.Time // when it was brought back
}

// Lost says that files changed since Since were not saved when their instance was lost. The zero Lost:
// nothing was.
type Lost struct {
	Since time.Time
	At    time.Time
}

// Failure is why the sandbox is not where it should be, and how often that has happened in a row.
type Failure struct {
	Code     api.Code
	Message  string
	At       time.Time
	Want     Want // what was being attempted
	Attempts int
	Final    bool // trying again unasked is pointless
}

// The finalizers that the engine knows itself. Others have the names that their makers give them.
const (
	FinalHook     = "terminate" // the terminate hook has run
	FinalInstance = "instance"  // the instance and its volume are gone
	FinalArchive  = "archive"   // its workspace was saved before the end: if still wanted, it is an archive
)

// Deleted reports whether the sandbox is a tombstone.
func (s *Sandbox) Deleted() bool { return !s.DeletedAt.IsZero() }

// Settled reports whether the sandbox is where its Want asks it to be.
func (s *Sandbox) Settled() bool { return s.Want.Satisfied(s.State) }

// Profiles are the sizes a sandbox may have.
var Profiles = []string{"lite", "standard", "full"}

// Or fills the fields that were not given from the defaults.
func (s Spec) Or(defaults Spec) Spec {
	s.Template = cmp.Or(s.Template, defaults.Template)
	s.Driver = cmp.Or(s.Driver, defaults.Driver)
	s.Profile = cmp.Or(s.Profile, defaults.Profile)
	return s
}
