package api

import "time"

// CreateSandbox asks for a sandbox of one's own. Every field is optional; the fields given must agree
// with the sandbox that already has the id or name.
type CreateSandbox struct {
	ID       string            `json:"id,omitempty" doc:"Id to create it under, any UUID; one is made if left out" example:"01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10"`
	Name     string            `json:"name,omitempty" doc:"Name, unique in the tenant: 1 to 63 of a-z, 0-9 and '-'" example:"scratch"`
	Template string            `json:"template,omitempty" maxLength:"63" doc:"Template; the server's default if left out"`
	Driver   string            `json:"driver,omitempty" maxLength:"63" doc:"Driver; the template's or the server's default if left out"`
	Profile  string            `json:"profile,omitempty" maxLength:"63" doc:"Size: lite, standard or full"`
	Env      map[string]string `json:"env,omitempty" doc:"Environment of the processes in it: at most 64 variables, 16 KiB in all; names are of A-Z, a-z, 0-9 and '_', with no digit first"`
	Metadata map[string]string `json:"metadata,omitempty" doc:"Anything of yours, returned as it is: at most 64 entries, 16 KiB in all, names of at most 256 bytes"`
}

// Sandbox is one sandbox as the API shows it.
type Sandbox struct {
	ID          string            `json:"id" doc:"Durable id, a UUID"`
	Name        string            `json:"name,omitempty" doc:"Name, if it has one"`
	Owner       Owner             `json:"owner"`
	Template    string            `json:"template"`
	Driver      string            `json:"driver"`
	Profile     string            `json:"profile"`
	State       string            `json:"state" doc:"Where it is" enum:"pending,creating,running,unhealthy,stopping,stopped,starting,archived,terminating,terminated,error"`
	Want        string            `json:"want" doc:"Where it is asked to be" enum:"running,stopped,archived,gone"`
	Env         []string          `json:"env,omitempty" doc:"Names of the environment variables it was given; values are never shown"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	Instance    string            `json:"instance,omitempty" doc:"The instance's id at its driver"`
	Incarnation int64             `json:"incarnation" doc:"Which rebirth of the instance this is"`
	Error       *SandboxError     `json:"error,omitempty" doc:"Why it is not where it is asked to be"`
	Frozen      bool              `json:"frozen,omitempty" doc:"It runs and is held in memory; the next use thaws it. Only when it is read alone"`
	TurnID      string            `json:"turn_id,omitempty" doc:"The turn that runs in it; only when it is read alone"`
	Traffic     *Traffic          `json:"traffic,omitempty" doc:"What it exchanged with the outside; only when it is read alone, and if its template lets it out"`
	CreatedAt   time.Time         `json:"created_at"`
	StartedAt   *time.Time        `json:"started_at,omitempty" doc:"When the present instance became ready"`
	ActiveAt    time.Time         `json:"active_at" doc:"Last use"`
	DeletedAt   *time.Time        `json:"deleted_at,omitempty"`
	Finalizers  []string          `json:"finalizers,omitempty" doc:"What is left to do before it has ended"`

	Saved
}

// Saved is what is known of a workspace and its versions.
type Saved struct {
	UnsavedSince *time.Time       `json:"unsaved_since,omitempty" doc:"Files may differ from the newest version since then; absent when everything is saved"`
	SaveError    *SandboxError    `json:"save_error,omitempty" doc:"Why the last save failed; it is tried again"`
	Restored     *RestoredVersion `json:"restored,omitempty" doc:"What the last start brought back into the workspace"`
	Lost         *LostChanges     `json:"lost,omitempty" doc:"Changes that were not saved when an instance was lost"`
}

// RestoredVersion is a version that a start brought back into the workspace.
type RestoredVersion struct {
	Version string    `json:"version"`
	SavedAt time.Time `json:"saved_at" doc:"When the version was saved"`
	At      time.Time `json:"at" doc:"When it was brought back"`
}

// LostChanges says that changes of files were not saved when their instance was lost.
type LostChanges struct {
	Since time.Time `json:"since" doc:"Files changed since then were not saved"`
	At    time.Time `json:"at" doc:"When the instance was found lost"`
}

// Traffic is how many bytes a sandbox exchanged with the outside since it, or the server, was last started.
type Traffic struct {
	BytesIn  int64 `json:"bytes_in" doc:"Received by the sandbox"`
	BytesOut int64 `json:"bytes_out" doc:"Sent by the sandbox"`
}

// Owner is what a sandbox belongs to.
type Owner struct {
	Kind string `json:"kind" enum:"conversation,project,thread,sandbox"`
	ID   string `json:"id"`
}

// SandboxError is why a sandbox is not where it is asked to be.
type SandboxError struct {
	Code     Code      `json:"code"`
	Message  string    `json:"message"`
	At       time.Time `json:"at"`
	Attempts int       `json:"attempts" doc:"Failures in a row"`
}

// Transition is one entry of a sandbox's history, newest first in lists.
type Transition struct {
	Seq         int64     `json:"seq"`
	At          time.Time `json:"at"`
	Event       string    `json:"event" doc:"What happened; 'want' when something else was asked for"`
	From        string    `json:"from,omitempty"`
	To          string    `json:"to,omitempty"`
	Want        string    `json:"want,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	Actor       string    `json:"actor,omitempty"`
	Generation  int64     `json:"generation"`
	Incarnation int64     `json:"incarnation"`
	Instance    string    `json:"instance,omitempty"`
}

// List is one page of things.
type List[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor,omitempty" doc:"Give it as cursor to read on; absent on the last page"`
}
