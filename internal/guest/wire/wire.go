// Package wire is the language between the server and the helper inside an instance.
//
// A message is one packet on a SEQPACKET Unix socket, with the descriptors that go with it; a body too
// long for a packet travels in a sealed memory file. Bodies are compact binary records ([Config],
// [Request], [Reply]): fields in a fixed order, to which new ones are only ever added at the end, so that
// a newer server understands a helper that was started by an older one, and the other way round. Nothing
// here uses reflection: the helper has to stay small.
//
// [Conn] sends and receives. It waits in Go's poller, not in a thread.
package wire

import "errors"

// ErrMalformed is a message that is none of ours.
var ErrMalformed = errors.New("malformed message")

// Sizes of a message.
const (
	MaxInline = 64 << 10 // a longer body travels in a memory file
	MaxBody   = 8 << 20  // a longer body is refused by both sides; the kernel takes less for a command
	MaxFiles  = 250      // descriptors with one message
	maxList   = 1 << 18  // elements of a list
)

// RecvBuffer is how long a buffer for Recv has to be: for a packet, and behind it for its descriptors.
const (
	RecvBuffer = packetSize + controlSize

	packetSize  = 1 + MaxInline
	controlSize = 16 + 4*(MaxFiles+1) + 16 // a header, the numbers, and room for padding
)
