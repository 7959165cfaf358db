package api

import "time"

// PortURLSeconds is the lifetime of a signed URL whose request names none, in seconds.
const PortURLSeconds = 3600

// CreatePortURL asks for a signed URL of a sandbox's port.
type CreatePortURL struct {
	ExpiresInSeconds int64  `json:"expires_in_seconds,omitempty" minimum:"1" maximum:"604800" doc:"Lifetime of the URL; default: one hour"`
	Path             string `json:"path,omitempty" maxLength:"4096" doc:"Path and query that the URL opens; default: /"`
}

// PortURL is a signed URL. Everyone who has it may use the port until it ends.
type PortURL struct {
	ID        string    `json:"id"`
	SandboxID string    `json:"sandbox_id"`
	Port      int       `json:"port"`
	URL       string    `json:"url" doc:"The URL to open. It is returned only once"`
	Origin    string    `json:"origin" doc:"The origin of the port, without a signature"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// ForwardProtocol is the WebSocket subprotocol of forwarded TCP connections. Binary messages are the bytes of the
// connection. The text message ForwardEnd says that its sender sends no more bytes.
const (
	ForwardProtocol = "berth.forward.v1"
	ForwardEnd      = "end"
)
