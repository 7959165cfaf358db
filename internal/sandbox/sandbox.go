// Package sandbox is Berth's pure core: the record of a sandbox, its states, and the plan of the next steps.
//
// [Sandbox] is the durable record, [Owner] the object it belongs to, [State] its current and [Want] its desired
// state. [Next] looks up a transition in the matrix. [Plan] takes the record, an [Observation] of the driver and a
// [Policy], and returns steps for the engine and the time of the next check. The package does no I/O and reads no
// clock.
package sandbox

import (
	"cmp"
	"time"

	"github.com/berthdev/berth/api"
)

// InstanceID is the driver's durable name for an instance; empty when there is none.
type InstanceID string

// Sandbox is the durable record of one sandbox. It outlives the sandbox's instances.
type Sandbox struct {
	ID    string
	Name  string // empty when it has none
	Owner Owner
	Spec  Spec
	// EnvProblem is the error of decrypting Spec.Env, or nil. A sandbox with an EnvProblem is never started or used.
	EnvProblem error
	// Account and Agent are the tenant's account and agent that the sandbox was created for; empty for none.
	Account, Agent string
	// Prefix is the key prefix of the sandbox's versions in the object store, fixed at creation. It is empty for
	// sandboxes that were created before prefixes were recorded.
	Prefix string
	Host   string // host that a local instance is pinned to; empty for drivers reachable from anywhere

	State     State
	Want      Want
	DeletedAt time.Time // zero: not deleted; never cleared: a deleted sandbox stays deleted

	Generation  int64 // epoch of the newest lease; fences every write to State, Instance, Incarnation, Synced, Failure
	Incarnation int64 // number of the newest instance; incremented before each create
	Instance    InstanceID
	Left        int64 // newest incarnation whose instance is on a forgotten host, which keeps its files; zero: none
	Synced      SyncMark
	Failure     *Failure
	Recovered   Recoveries // recent recoveries without a request
	Finalizers  []string   // remaining steps before the sandbox is terminated, in this order

	SkipSave bool  // the end was requested without a last save
	Purge    Purge // whether a delete also removes the versions

	UnsavedSince time.Time // earliest time of a change that may not be saved; zero: all changes are saved
	ChangedAt    time.Time // last use that may have changed a file
	SaveFailure  *Failure  // failure of the last save by a timer; nil: it succeeded
	Restored     Restored  // version that the last start restored
	Lost         Lost      // changes lost with the last lost instance

	CreatedAt   time.Time
	StartedAt   time.Time // time at which the current instance became ready
	ActiveAt    time.Time // last use
	ProbedAt    time.Time // last observation of the instance by the engine
	PausedAt    time.Time // last time that it stopped; zero: never
	ResumedAt   time.Time // last time that it ran again after it had stopped or was ill; zero: never
	DestroyedAt time.Time // last time at which the driver confirmed the end of an instance
	HeldUntil   time.Time // end of the longest hold: a turn, a terminal, preview traffic
	DueAt       time.Time // next check by the engine; zero: only on request

	// ActiveBefore is the last use before the call of Ensure that returned this record. It is not stored; it is zero in a
	// new sandbox and in other records.
	ActiveBefore time.Time
}

// Purge selects whether the versions of a sandbox are removed when it is deleted.
type Purge string

// The values of Purge. PurgeUnknown marks a sandbox that was deleted by a version of Berth that stored the value in
// the object store.
const (
	PurgeUnknown Purge = ""
	PurgeNo      Purge = "no"
	PurgeYes     Purge = "yes"
)

// Spec describes the requested sandbox. Two creates under one name must agree in the fields that both set.
type Spec struct {
	Template string
	Driver   string
	Profile  string
	Env      map[string]string
	Metadata map[string]string
}

// SyncMark is the workspace version that this incarnation restored or pushed. Only an incarnation that has a mark, or
// that started with an empty workspace, may push.
type SyncMark struct {
	Version     string
	Incarnation int64
	SavedAt     time.Time // time at which the version was saved; only set by a restore, not stored
}

// Restored describes the version that a start restored into the workspace. The zero value means that none was.
type Restored struct {
	Version string
	SavedAt time.Time // time at which the version was saved
	At      time.Time // time of the restore
}

// Lost describes file changes that were lost with an instance. The zero value means that none were.
type Lost struct {
	Since time.Time // time of the oldest lost change
	At    time.Time // time at which the instance was lost
}

// Failure describes the failed attempts to reach the desired state.
type Failure struct {
	Code     api.Code
	Message  string
	At       time.Time
	Want     Want // desired state of the failed attempt
	Attempts int  // number of failures in a row
	Final    bool // not retried until a new request
}

// The engine's finalizers. Others are named by their packages.
const (
	FinalHook     = "terminate" // the terminate hook has run
	FinalInstance = "instance"  // the instance and its volume are gone
	FinalArchive  = "archive"   // the workspace was saved before the end, so that the sandbox can become archived
)

// Deleted reports whether the sandbox is a tombstone.
func (s *Sandbox) Deleted() bool { return !s.DeletedAt.IsZero() }

// Settled reports whether the state satisfies Want.
func (s *Sandbox) Settled() bool { return s.Want.Satisfied(s.State) }

// Profiles are the sizes a sandbox may have.
var Profiles = []string{"lite", "standard", "full"}

// Or fills empty fields from the defaults.
func (s Spec) Or(defaults Spec) Spec {
	s.Template = cmp.Or(s.Template, defaults.Template)
	s.Driver = cmp.Or(s.Driver, defaults.Driver)
	s.Profile = cmp.Or(s.Profile, defaults.Profile)
	return s
}
