// Package gateway serves the ways out of sandboxes in a process that outlives the server.
//
// A connection out of a sandbox passes package egress. If that ran in the server, each restart of the server would break
// the calls that agents have under way. So a small process for each data directory serves them ([Serve]), the berth
// program in another role. A [Client] in the server starts it when a sandbox first needs it, and hands over the
// listeners of sandboxes with their specs. The next server finds the process and hands over the same listeners again:
// connections go on, and new ones follow the templates as they are then.
//
//	server ── spec, listeners ──▶ gateway ── egress.Ways ──▶ outside
//	   ◀── bytes, log lines ────     ▲
//	                          sandbox's connections
//
// The socket is <dir>/v<protocol>.sock. Each connection carries one request and its reply, in JSON, with descriptors.
// The process decides nothing: rules, services and limits come with each spec, and package egress applies them. It ends
// when it serves no sandbox and no server has asked for it for some seconds.
package gateway

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/berthdev/berth/internal/egress"
)

// protocol is the version of the messages and of what they mean. A server with another protocol lets the process finish
// its connections and starts another one. Raise it when a message changes so that an older process would
// misunderstand it, and when a running process must not keep applying its older rules. The requests opPoll, opDrain and
// opEnd are the same in all versions.
const protocol = 1

// socketName returns the name of the socket for a version of the protocol.
func socketName(protocol int) string { return fmt.Sprintf("v%d.sock", protocol) }

// Name is the first argument of a program that becomes the process.
const Name = "berth-egress"

// The operations of requests.
const (
	opAttach = "attach" // serve an instance, with its listeners
	opDetach = "detach" // end all connections of an instance
	opPoll   = "poll"   // report traffic and log lines
	opDrain  = "drain"  // give up all listeners, finish the connections
	opEnd    = "end"    // end as soon as no instance is served
)

// request is a message to the process.
type request struct {
	Op string `json:"op"`

	Instance string       `json:"instance,omitempty"`
	Run      int64        `json:"run,omitempty"`    // opDetach: the run to end; 0: any
	Spec     *egress.Spec `json:"spec,omitempty"`   // opAttach
	Ports    []uint16     `json:"ports,omitempty"`  // opAttach: the ports of the listeners, in the order of the descriptors
	Helper   bool         `json:"helper,omitempty"` // opAttach: the last descriptor is a pidfd of the instance's helper

	// opPoll: the lines up to Seen of that process are logged. Level is the lowest level that the server logs.
	Process string     `json:"process,omitempty"`
	Seen    int64      `json:"seen,omitempty"`
	Level   slog.Level `json:"level,omitempty"`
}

// reply is the answer to a request.
type reply struct {
	Error   string  `json:"error,omitempty"`
	Process string  `json:"process"` // id of the process
	Run     int64   `json:"run,omitempty"`
	Report  *report `json:"report,omitempty"`
}

// report is the state of the process.
type report struct {
	Traffic traffic      `json:"traffic"` // of all runs, also of those that ended
	Runs    []runTraffic `json:"runs"`
	Lines   []line       `json:"lines,omitempty"`
	Dropped int          `json:"dropped,omitempty"` // lines that were not kept
}

// traffic counts bytes into sandboxes and out of them.
type traffic struct {
	In  int64 `json:"in"`
	Out int64 `json:"out"`
}

// minus returns the difference of two counts.
func (t traffic) minus(earlier traffic) traffic {
	return traffic{t.In - earlier.In, t.Out - earlier.Out}
}

// runTraffic is the traffic of one run of an instance.
type runTraffic struct {
	Run int64 `json:"run"`
	traffic
}

const (
	idleEnd   = 5 * time.Second // time without a request after which a process without instances ends
	drainTime = time.Hour       // time after which the connections of a process that drains end
	askTime   = 10 * time.Second
)
