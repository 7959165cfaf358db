package api

// TerminalProtocol is the WebSocket subprotocol of terminals. Binary messages are bytes, typed or shown;
// text messages are each a TerminalWord.
const TerminalProtocol = "berth.terminal.v1"

// TerminalKeyProtocol is what a browser, which cannot set headers, puts before the key among the
// subprotocols it offers. It is never answered with.
const TerminalKeyProtocol = "berth.key."

// The types of TerminalWord.
const (
	TermAttached = "attached" // from the server, first
	TermExit     = "exit"     // from the server, last
	TermResize   = "resize"   // from the client
	TermEnd      = "end"      // from the client: hang up
)

// CloseEnd is the status with which a client closes a terminal to hang up. Any other leaves what runs
// in it running.
const CloseEnd = 4000

// TerminalWord is what client and server say about a terminal.
type TerminalWord struct {
	Type   string `json:"type" enum:"attached,exit,resize,end"`
	ExecID string `json:"exec_id,omitempty"`
	Next   int64  `json:"next,omitempty" doc:"With attached: the offset of the output that follows. With exit: the one behind it"`
	Cols   int    `json:"cols,omitempty"`
	Rows   int    `json:"rows,omitempty"`
	*ExecExit
}

// LoginShell is the command of a terminal for people: bash where there is one.
func LoginShell() Command { return Shell("[ -x /bin/bash ] && exec /bin/bash -l; exec /bin/sh -l") }
