package api

import "time"

// Host is a machine that keeps local sandboxes.
type Host struct {
	Name         string     `json:"name" doc:"As in its data directory, in the file host"`
	AdvertiseURL string     `json:"advertise_url,omitempty" doc:"Where clients reach its server; empty: its advertise_url is not set"`
	Alive        bool       `json:"alive" doc:"Its server was seen within the last minute"`
	StartedAt    *time.Time `json:"started_at,omitempty" doc:"When its newest server started"`
	SeenAt       *time.Time `json:"seen_at,omitempty" doc:"When its server was last seen"`
	ForgottenAt  *time.Time `json:"forgotten_at,omitempty" doc:"When it was forgotten, if it has not come back since"`
	Sandboxes    int64      `json:"sandboxes" doc:"How many sandboxes are on it, those being deleted included"`
}

// ForgottenHost is what became of a forgotten machine's sandboxes.
type ForgottenHost struct {
	Name      string             `json:"name"`
	Sandboxes []ForgottenSandbox `json:"sandboxes"`
}

// ForgottenSandbox is a sandbox that a forgotten machine had.
type ForgottenSandbox struct {
	ID           string     `json:"id"`
	Name         string     `json:"name,omitempty"`
	Tenant       string     `json:"tenant"`
	Owner        Owner      `json:"owner"`
	State        string     `json:"state" doc:"Before it was forgotten"`
	Deleting     bool       `json:"deleting,omitempty" doc:"It was being deleted, and its owner is free now or soon"`
	Lost         bool       `json:"lost" doc:"It had a machine there, whose files are only there"`
	Version      string     `json:"version,omitempty" doc:"The newest version that its record knows of; it starts from that"`
	UnsavedSince *time.Time `json:"unsaved_since,omitempty" doc:"Changes since then were not saved"`
	ActiveAt     time.Time  `json:"active_at" doc:"When it was last used"`
	Error        string     `json:"error,omitempty" doc:"Why it still belongs to the machine; ask again"`
}
