package api

import "time"

// CreateSandbox is the request to create a sandbox that belongs to no conversation, project or thread. All fields are
// optional. If a sandbox has the id or name, the given fields must agree with it.
type CreateSandbox struct {
	ID       string            `json:"id,omitempty" doc:"The id, any UUID; default: a new one" example:"01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10"`
	Name     string            `json:"name,omitempty" doc:"The name, unique in the tenant: 1 to 63 characters of a-z, 0-9 and '-'" example:"scratch"`
	Template string            `json:"template,omitempty" maxLength:"63" doc:"The template; default: the server's"`
	Driver   string            `json:"driver,omitempty" maxLength:"63" doc:"The driver; default: the template's, then the server's"`
	Profile  string            `json:"profile,omitempty" maxLength:"63" doc:"The size: lite, standard or full"`
	Env      map[string]string `json:"env,omitempty" doc:"Environment variables: at most 64, 16 KiB in total; names of A-Z, a-z, 0-9 and '_' that do not begin with a digit"`
	From     string            `json:"from,omitempty" maxLength:"64" doc:"Id of a sandbox, also of a deleted one: the new sandbox starts with its newest saved version. Template, driver, profile and metadata default to its own, and so does env unless it is deleted"`
	Metadata map[string]string `json:"metadata,omitempty" doc:"Your own metadata, returned unchanged: at most 64 entries, 16 KiB in total, names of at most 256 bytes"`
}

// Sandbox is one sandbox in the terms of the API.
type Sandbox struct {
	ID          string            `json:"id" doc:"The durable id, a UUID"`
	Name        string            `json:"name,omitempty" doc:"The name, if it has one"`
	Owner       Owner             `json:"owner"`
	Template    string            `json:"template"`
	Driver      string            `json:"driver"`
	Profile     string            `json:"profile"`
	State       string            `json:"state" doc:"The current state" enum:"pending,creating,running,unhealthy,stopping,stopped,starting,archived,terminating,terminated,error"`
	Want        string            `json:"want" doc:"The desired state" enum:"running,stopped,archived,gone"`
	Env         []string          `json:"env,omitempty" doc:"Names of its environment variables; values are never returned"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	Instance    string            `json:"instance,omitempty" doc:"The instance's id at its driver"`
	Incarnation int64             `json:"incarnation" doc:"How many instances the sandbox has had"`
	Error       *SandboxError     `json:"error,omitempty" doc:"Why it is not in the desired state"`
	Frozen      bool              `json:"frozen,omitempty" doc:"Its processes are frozen; the next use thaws them. Not in lists"`
	OOMKills    int64             `json:"oom_kills,omitempty" doc:"Number of processes that the kernel killed since the start because the sandbox's memory was full; only when it is read alone, or in a list with live=true"`
	TurnID      string            `json:"turn_id,omitempty" doc:"The running turn. Not in lists"`
	Traffic     *Traffic          `json:"traffic,omitempty" doc:"Network traffic, if its template allows egress. Not in lists"`
	CreatedAt   time.Time         `json:"created_at"`
	StartedAt   *time.Time        `json:"started_at,omitempty" doc:"When the current instance became ready"`
	ActiveAt    time.Time         `json:"active_at" doc:"Last use"`
	DeletedAt   *time.Time        `json:"deleted_at,omitempty"`
	Finalizers  []string          `json:"finalizers,omitempty" doc:"Finalizers that are left before it is gone"`

	Saved
}

// SandboxStats is the resource usage of a running sandbox.
type SandboxStats struct {
	At               time.Time `json:"at"`
	MemoryBytes      int64     `json:"memory_bytes" doc:"Memory in use, without page cache that can be dropped"`
	MemoryLimitBytes int64     `json:"memory_limit_bytes,omitempty" doc:"The limit; absent if there is none"`
	CPUSeconds       float64   `json:"cpu_seconds" doc:"Processor time since the start; the difference of two answers is the use between them"`
	Processes        int64     `json:"processes"`
	OOMKills         int64     `json:"oom_kills" doc:"Number of processes that the kernel killed since the start because the memory was full"`
}

// Saved is the state of a workspace and its versions.
type Saved struct {
	UnsavedSince *time.Time       `json:"unsaved_since,omitempty" doc:"Changes since then may be unsaved; absent if all files are saved"`
	SaveError    *SandboxError    `json:"save_error,omitempty" doc:"Why the last save failed; it is retried"`
	Restored     *RestoredVersion `json:"restored,omitempty" doc:"The version that the last start restored"`
	Lost         *LostChanges     `json:"lost,omitempty" doc:"Unsaved changes that were lost with an instance"`
}

// RestoredVersion is the version that the last start restored into the workspace.
type RestoredVersion struct {
	Version string    `json:"version"`
	SavedAt time.Time `json:"saved_at" doc:"When the version was saved"`
	At      time.Time `json:"at" doc:"When it was restored"`
}

// LostChanges describes changes of files that were lost with an instance before they were saved.
type LostChanges struct {
	Since time.Time `json:"since" doc:"Changes since then were not saved"`
	At    time.Time `json:"at" doc:"When the instance was found lost"`
}

// Traffic counts the bytes between a sandbox and the network since the last start of the sandbox or of the server.
type Traffic struct {
	BytesIn  int64 `json:"bytes_in" doc:"Bytes that the sandbox received"`
	BytesOut int64 `json:"bytes_out" doc:"Bytes that the sandbox sent"`
}

// Owner identifies the conversation, project or thread that a sandbox belongs to.
type Owner struct {
	Kind string `json:"kind" enum:"conversation,project,thread,sandbox"`
	ID   string `json:"id"`
}

// SandboxError is the reason why a sandbox is not in its desired state.
type SandboxError struct {
	Code     Code      `json:"code"`
	Message  string    `json:"message"`
	At       time.Time `json:"at"`
	Attempts int       `json:"attempts" doc:"Number of consecutive failures"`
}

// Transition is one entry of a sandbox's history. Lists have the newest entry first.
type Transition struct {
	Seq         int64     `json:"seq"`
	At          time.Time `json:"at"`
	Event       string    `json:"event" doc:"The event; 'want' if the desired state changed"`
	From        string    `json:"from,omitempty"`
	To          string    `json:"to,omitempty"`
	Want        string    `json:"want,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	Actor       string    `json:"actor,omitempty"`
	Generation  int64     `json:"generation"`
	Incarnation int64     `json:"incarnation"`
	Instance    string    `json:"instance,omitempty"`
}

// List is one page of a list.
type List[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor,omitempty" doc:"Send it as cursor to get the next page; absent on the last page"`
}

// OpenPort is a TCP port that listens in a sandbox.
type OpenPort struct {
	Port    int    `json:"port"`
	Address string `json:"address" doc:"The address inside the sandbox that it listens on"`
	Path    string `json:"path" doc:"The path on this server that forwards requests to the port"`
}
