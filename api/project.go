package api

import "time"

// EnsureProject asks for a project's one sandbox, running. Every field is optional; the fields given must
// agree with the sandbox that the project has already.
type EnsureProject struct {
	Template string            `json:"template,omitempty" maxLength:"63" doc:"Template; the server's default if left out"`
	Driver   string            `json:"driver,omitempty" maxLength:"63" doc:"Driver; the template's or the server's default if left out"`
	Profile  string            `json:"profile,omitempty" maxLength:"63" doc:"Size: lite, standard or full"`
	Env      map[string]string `json:"env,omitempty" doc:"Environment of the processes in it; the same rules as for sandboxes hold"`
	Metadata map[string]string `json:"metadata,omitempty" doc:"Anything of yours, returned as it is; the same rules as for sandboxes hold"`
}

// ProjectSandbox is a project's sandbox in the words of the project API.
type ProjectSandbox struct {
	ID              string            `json:"id" doc:"The same as sandbox_id"`
	ProjectID       string            `json:"project_id"`
	TenantID        string            `json:"tenant_id"`
	SandboxID       string            `json:"sandbox_id" doc:"Durable id of the sandbox; every route of sandboxes takes it"`
	Status          string            `json:"status" enum:"PENDING,CREATING,RUNNING,UNHEALTHY,STOPPED,TERMINATED,ERROR"`
	State           string            `json:"state" doc:"The same in the words of the sandbox API"`
	Template        string            `json:"template"`
	Driver          string            `json:"driver"`
	Profile         string            `json:"profile"`
	CreatedAt       time.Time         `json:"created_at"`
	StartedAt       *time.Time        `json:"started_at,omitempty"`
	LastAccessedAt  time.Time         `json:"last_accessed_at"`
	HealthCheckedAt *time.Time        `json:"health_checked_at,omitempty"`
	ErrorMessage    string            `json:"error_message,omitempty"`
	Metadata        map[string]string `json:"metadata,omitempty"`

	Saved
}

// ProjectHealth is what a health check found just now.
type ProjectHealth struct {
	ProjectID string    `json:"project_id"`
	SandboxID string    `json:"sandbox_id"`
	Status    string    `json:"status" doc:"The status in the record" enum:"PENDING,CREATING,RUNNING,UNHEALTHY,STOPPED,TERMINATED,ERROR"`
	Healthy   bool      `json:"healthy" doc:"It runs, and everything in it answers"`
	Actual    string    `json:"actual" doc:"What its driver says of it" enum:"missing,up,down,broken,unclear,unreachable"`
	Detail    string    `json:"detail,omitempty" doc:"What is wrong, for people"`
	CheckedAt time.Time `json:"checked_at"`
}

// ProjectSync is a sandbox's record beside what is really there.
type ProjectSync struct {
	ProjectID string         `json:"project_id"`
	SandboxID string         `json:"sandbox_id"`
	Recorded  string         `json:"recorded" doc:"The status in the record" enum:"PENDING,CREATING,RUNNING,UNHEALTHY,STOPPED,TERMINATED,ERROR"`
	Actual    string         `json:"actual" doc:"What its driver says of it" enum:"missing,up,down,broken,unclear,unreachable"`
	Agrees    bool           `json:"agrees"`
	Detail    string         `json:"detail,omitempty"`
	Would     []string       `json:"would,omitempty" doc:"What Berth would do about it now"`
	Sandbox   ProjectSandbox `json:"sandbox" doc:"The record; after POST, as it is now"`
}

// CleanupProjects asks for sandboxes that nobody used for a while to be let go.
type CleanupProjects struct {
	MaxIdleSeconds int64 `json:"max_idle_seconds" minimum:"1" maximum:"3153600000" doc:"Those not used for so long"`
	DryRun         bool  `json:"dry_run,omitempty" doc:"Say which, and do nothing"`
}

// ProjectCleanup is what a cleanup did, or would do.
type ProjectCleanup struct {
	DryRun bool             `json:"dry_run"`
	Items  []CleanedProject `json:"items"`
	More   bool             `json:"more,omitempty" doc:"There are more; ask again"`
}

// CleanedProject is one sandbox that was, or would be, let go: terminated after a save, or where nothing can
// be saved, stopped with its files kept.
type CleanedProject struct {
	ProjectID   string `json:"project_id"`
	SandboxID   string `json:"sandbox_id"`
	IdleSeconds int64  `json:"idle_seconds"`
	Action      string `json:"action,omitempty" enum:"stop,terminate" doc:"Absent: it could not be found out what is possible"`
	Done        bool   `json:"done" doc:"Never in a dry run"`
	Error       string `json:"error,omitempty" doc:"Why it is not done; what was asked of it is recorded, and goes on by itself"`
}
