package api

import "time"

// TerminalProtocol is the WebSocket subprotocol of terminals. Binary messages are terminal input and output; each
// text message is a TerminalWord.
const TerminalProtocol = "berth.terminal.v1"

// TerminalKeyProtocol is the prefix of a subprotocol that carries the API key. Browsers cannot set headers and offer
// this subprotocol instead. The server never selects it.
const TerminalKeyProtocol = "berth.key."

// The types of TerminalWord.
const (
	TermAttached = "attached" // from the server, the first message
	TermExit     = "exit"     // from the server, the last message
	TermResize   = "resize"   // from the client
	TermEnd      = "end"      // from the client: end the command (SIGHUP)
)

// CloseEnd is the close status of a client that also ends the terminal's command (SIGHUP). After any other status the
// command keeps running.
const CloseEnd = 4000

// CloseKeyEnded is the status with which the server closes a terminal whose key was revoked or has expired. The
// reason begins with the code, key_revoked or key_expired.
const CloseKeyEnded = 4001

// TerminalWord is a text message of the terminal protocol.
type TerminalWord struct {
	Type     string `json:"type" enum:"attached,exit,resize,end"`
	ExecID   string `json:"exec_id,omitempty"`
	Next     int64  `json:"next,omitempty" doc:"With attached: the offset of the output that follows. With exit: the offset after the last output"`
	Cols     int    `json:"cols,omitempty"`
	Rows     int    `json:"rows,omitempty"`
	ViewOnly bool   `json:"view_only,omitempty" doc:"With attached: what the client sends is ignored"`
	Notice   string `json:"notice,omitempty" doc:"With attached: changes of the sandbox's files since its last use: the version that was restored, and lost changes"`
	*ExecExit
}

// LoginShell returns the default command of a terminal: bash if it is installed, else sh.
func LoginShell() Command { return Shell("[ -x /bin/bash ] && exec /bin/bash -l; exec /bin/sh -l") }

// CreateTerminal asks for a terminal that outlives its viewers.
type CreateTerminal struct {
	ExecID           string `json:"exec_id,omitempty" maxLength:"64" doc:"The id of a terminal that runs, to get further URLs of it; absent: a new one is started"`
	Command          string `json:"command,omitempty" maxLength:"65536" doc:"A command line for /bin/sh -c; default: a login shell"`
	User             string `json:"user,omitempty" enum:"agent,root" doc:"Default: the template's user"`
	Cols             int    `json:"cols,omitempty" minimum:"1" maximum:"10000" doc:"Columns; default: 80"`
	Rows             int    `json:"rows,omitempty" minimum:"1" maximum:"10000" doc:"Rows; default: 24"`
	ExpiresInSeconds int64  `json:"expires_in_seconds,omitempty" minimum:"1" maximum:"604800" doc:"Lifetime of the URLs; default: one hour"`
}

// SandboxTerminal is a terminal that outlives its viewers. Everyone who has one of its URLs may use it until it ends.
type SandboxTerminal struct {
	ExecID    string    `json:"exec_id"`
	SandboxID string    `json:"sandbox_id"`
	URL       string    `json:"url" doc:"The WebSocket of the terminal. It is returned only once"`
	ViewURL   string    `json:"view_url" doc:"The WebSocket for those who may only look. It is returned only once"`
	ExpiresAt time.Time `json:"expires_at" doc:"When both URLs expire"`
	Notice    string    `json:"notice,omitempty" doc:"Changes of the sandbox's files since its last use: the version that was restored, and lost changes"`
}
