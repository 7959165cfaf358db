package api

import "time"

// EnsureProject is the request for a project's sandbox, running. All fields are optional. The given fields must agree
// with the project's sandbox if it exists.
type EnsureProject struct {
	Template string            `json:"template,omitempty" maxLength:"63" doc:"The template; default: the server's"`
	Driver   string            `json:"driver,omitempty" maxLength:"63" doc:"The driver; default: the template's, then the server's"`
	Profile  string            `json:"profile,omitempty" maxLength:"63" doc:"The size: lite, standard or full"`
	Env      map[string]string `json:"env,omitempty" doc:"Environment variables; the same rules as for sandboxes apply"`
	Metadata map[string]string `json:"metadata,omitempty" doc:"Your own metadata, returned unchanged; the same rules as for sandboxes apply"`
}

// ProjectSandbox is a project's sandbox in the terms of the project API.
type ProjectSandbox struct {
	ID              string            `json:"id" doc:"The same as sandbox_id"`
	ProjectID       string            `json:"project_id"`
	TenantID        string            `json:"tenant_id"`
	SandboxID       string            `json:"sandbox_id" doc:"The sandbox's durable id; all sandbox routes accept it"`
	Status          string            `json:"status" enum:"PENDING,CREATING,RUNNING,UNHEALTHY,STOPPED,TERMINATED,ERROR"`
	State           string            `json:"state" doc:"The state in the terms of the sandbox API"`
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

// ProjectHealth is the result of a health check.
type ProjectHealth struct {
	ProjectID string    `json:"project_id"`
	SandboxID string    `json:"sandbox_id"`
	Status    string    `json:"status" doc:"The status in the record" enum:"PENDING,CREATING,RUNNING,UNHEALTHY,STOPPED,TERMINATED,ERROR"`
	Healthy   bool      `json:"healthy" doc:"The sandbox runs and its processes respond"`
	Actual    string    `json:"actual" doc:"The state at the driver" enum:"missing,up,down,broken,unclear,unreachable"`
	Detail    string    `json:"detail,omitempty" doc:"The problem, for people"`
	CheckedAt time.Time `json:"checked_at"`
}

// ProjectSync is the result of comparing a sandbox's record with its instance.
type ProjectSync struct {
	ProjectID string         `json:"project_id"`
	SandboxID string         `json:"sandbox_id"`
	Recorded  string         `json:"recorded" doc:"The status in the record" enum:"PENDING,CREATING,RUNNING,UNHEALTHY,STOPPED,TERMINATED,ERROR"`
	Actual    string         `json:"actual" doc:"The state at the driver" enum:"missing,up,down,broken,unclear,unreachable"`
	Agrees    bool           `json:"agrees"`
	Detail    string         `json:"detail,omitempty"`
	Would     []string       `json:"would,omitempty" doc:"The steps that Berth would take now"`
	Sandbox   ProjectSandbox `json:"sandbox" doc:"The record; after POST the new one"`
}

// CleanupProjects is the request to terminate or stop the sandboxes of idle projects.
type CleanupProjects struct {
	MaxIdleSeconds int64 `json:"max_idle_seconds" minimum:"1" maximum:"3153600000" doc:"Minimum idle time in seconds"`
	DryRun         bool  `json:"dry_run,omitempty" doc:"Only report; change nothing"`
}

// ProjectCleanup is the result of a cleanup or of its dry run.
type ProjectCleanup struct {
	DryRun bool             `json:"dry_run"`
	Items  []CleanedProject `json:"items"`
	More   bool             `json:"more,omitempty" doc:"There are more; repeat the request"`
}

// CleanedProject is one sandbox of a cleanup. A cleanup saves and terminates a sandbox; if the files cannot be saved,
// it stops the sandbox and keeps them.
type CleanedProject struct {
	ProjectID   string `json:"project_id"`
	SandboxID   string `json:"sandbox_id"`
	IdleSeconds int64  `json:"idle_seconds"`
	Action      string `json:"action,omitempty" enum:"stop,terminate" doc:"The action; absent if it could not be determined"`
	Done        bool   `json:"done" doc:"Whether it was done; false in a dry run"`
	Error       string `json:"error,omitempty" doc:"Why it is not done yet; the request is recorded and continues in the background"`
}
