package api

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
	Type   string `json:"type" enum:"attached,exit,resize,end"`
	ExecID string `json:"exec_id,omitempty"`
	Next   int64  `json:"next,omitempty" doc:"With attached: the offset of the output that follows. With exit: the offset after the last output"`
	Cols   int    `json:"cols,omitempty"`
	Rows   int    `json:"rows,omitempty"`
	Notice string `json:"notice,omitempty" doc:"With attached: changes of the sandbox's files since its last use: the version that was restored, and lost changes"`
	*ExecExit
}

// LoginShell returns the default command of a terminal: bash if it is installed, else sh.
func LoginShell() Command { return Shell("[ -x /bin/bash ] && exec /bin/bash -l; exec /bin/sh -l") }
