// Package wire is the protocol between the server and the helper inside an instance.
//
// A message is one packet on a SEQPACKET Unix socket, with its file descriptors. A body that is too long for a packet
// is sent in a sealed memory file. Bodies are compact binary records ([Config], [Request], [Reply]): fields in a fixed
// order. New fields are added only at the end, so a server and a helper of different releases understand each other.
// The package uses no reflection, to keep the helper small.
//
// [Conn] sends and receives. It waits in Go's poller, not in a thread.
package wire

import "errors"

// ErrMalformed is the error of a message that does not follow the protocol.
var ErrMalformed = errors.New("malformed message")

// The limits of a message, in bytes or numbers.
const (
	MaxInline = 64 << 10 // a longer body is sent in a memory file
	MaxBody   = 8 << 20  // both sides reject a longer body; it exceeds the kernel's limit for a command line
	MaxFiles  = 250      // descriptors of one message
	maxList   = 1 << 18  // elements of a list
)

// RecvBuffer is the length in bytes of a buffer for Recv: a packet and then the control message with its descriptors.
const (
	RecvBuffer = packetSize + controlSize

	packetSize  = 1 + MaxInline
	controlSize = 16 + 4*(MaxFiles+1) + 16 // a header, the descriptors, and room for padding
)
