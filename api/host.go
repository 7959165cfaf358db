package api

import "time"

// Host is a machine with local sandboxes.
type Host struct {
	Name         string     `json:"name" doc:"The machine's name, from the file host in its data directory"`
	AdvertiseURL string     `json:"advertise_url,omitempty" doc:"The server's advertised URL; empty if advertise_url is not set"`
	Alive        bool       `json:"alive" doc:"Its server was seen within the last minute"`
	StartedAt    *time.Time `json:"started_at,omitempty" doc:"When its newest server started"`
	SeenAt       *time.Time `json:"seen_at,omitempty" doc:"When its server was last seen"`
	ForgottenAt  *time.Time `json:"forgotten_at,omitempty" doc:"When it was removed; absent if it came back"`
	Sandboxes    int64      `json:"sandboxes" doc:"Number of sandboxes on it, including those that are being deleted"`
}

// ForgottenHost lists the sandboxes of a forgotten machine and the outcome for each.
type ForgottenHost struct {
	Name      string             `json:"name"`
	Sandboxes []ForgottenSandbox `json:"sandboxes"`
}

// ForgottenSandbox is a sandbox of a forgotten machine.
type ForgottenSandbox struct {
	ID           string     `json:"id"`
	Name         string     `json:"name,omitempty"`
	Tenant       string     `json:"tenant"`
	Owner        Owner      `json:"owner"`
	State        string     `json:"state" doc:"The state before the machine was removed"`
	Deleting     bool       `json:"deleting,omitempty" doc:"It was being deleted; its owner can be used again soon"`
	Lost         bool       `json:"lost" doc:"It had an instance on the machine; that instance's files are only there"`
	Version      string     `json:"version,omitempty" doc:"The newest version in its record; the next start restores it"`
	UnsavedSince *time.Time `json:"unsaved_since,omitempty" doc:"Changes since then were not saved"`
	ActiveAt     time.Time  `json:"active_at" doc:"When it was last used"`
	Error        string     `json:"error,omitempty" doc:"Why it still belongs to the machine; try again"`
}
