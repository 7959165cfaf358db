package testkit

import (
	"os"
	"testing"
)

// size is a number that sets the length of a test: short is for make test, torture for make torture.
type size struct {
	name           string
	short, torture int
}

// sizes lists all numbers that set the length of tests. A name is "<experiment>.<counted thing>".
var sizes = []size{
	{"i1.processes", 8, 8},               // processes that race for the same owners
	{"i1.owners", 1_000, 10_000},         // owners; each must get exactly one sandbox
	{"i1.engines", 250, 10_000},          // owners that eight engines of one server race for
	{"i3.hits", 100, 2_000},              // sandboxes whose server is stopped between create and commit
	{"i4.creates", 60, 1_000},            // creates while a sweep runs all the time
	{"i14.deletes", 40, 1_000},           // deletes that race with uses of the same sandboxes
	{"matrix.each", 4, 100},              // runs of each row of the failure matrix, and of each pair of rows
	{"i10.keys", 400, 20_000},            // idempotency keys, each sent many times at once
	{"i1.servers", 3, 8},                 // server processes that race for the same owners
	{"i1.raced", 100, 2_000},             // owners whose sandboxes many clients request at once over HTTP
	{"i2.kills", 8, 300},                 // kills of servers under load
	{"i13.clients", 50, 50},              // clients that use a few owners at once
	{"i13.operations", 200, 2_000},       // operations of each client
	{"i13.seeds", 10, 100},               // histories, each from another random seed
	{"owners.owners", 24, 500},           // owners that use sandboxes during every fault
	{"owners.faults", 8, 60},             // faults, one after the other
	{"outage.seconds", 4, 30},            // seconds without the database
	{"network.rounds", 2, 30},            // rounds of latency and broken connections
	{"rolling.restarts", 1, 30},          // restarts of a whole fleet
	{"kill.servers", 30, 300},            // kills of servers under load, at several points of their work
	{"kill.turns", 15, 100},              // kills of a server in the middle of a turn, at several points of the turn
	{"kill.slack", 12, 60},               // kills of a server while it answers in Slack
	{"list.rows", 100_000, 1_000_000},    // rows behind every list endpoint
	{"resolve.rows", 10_000, 1_000_000},  // sandboxes in the table while one is resolved
	{"property.checks", 200, 20_000},     // random examples for each property
	{"local.depth", 5_000, 100_000},      // levels of a directory tree that is removed
	{"local.powerlosses", 1, 20},         // power losses after each operation of a local sandbox's life
	{"pgtest.databases", 3, 100},         // databases cloned at once from one template
	{"files.levels", 4_000, 20_000},      // nested folders
	{"files.entries", 100_000, 500_000},  // entries in one folder
	{"siege.seconds", 4, 60},             // seconds of every attack on resources at once
	{"files.swap_ms", 2_000, 60_000},     // milliseconds in which a folder and a link swap places
	{"i9.posts", 60, 2_000},              // prompts sent to servers that are killed
	{"i9.kills", 8, 300},                 // kills of servers during the test
	{"i9.outages", 1, 2},                 // outages of the database, or of the message store
	{"i9.seconds", 2, 30},                // seconds of each outage
	{"i9.conversations", 6, 1_000},       // conversations that share the prompts
	{"i12.wires", 24, 1_000},             // streams over HTTP, each cut off and resumed
	{"i12.kills", 4, 100},                // kills of servers during the test
	{"i12.streams", 100, 1_000},          // streams of turns, each cut off and resumed
	{"i12.cuts", 3, 5},                   // cuts of each stream
	{"quota.racers", 64, 1_000},          // requests that race for the last places of a quota
	{"quota.steps", 200, 20_000},         // random steps that make and delete sandboxes
	{"egress.tunnels", 1_000, 4_000},     // tunnels open at once through one proxy
	{"i7.manifests", 500, 20_000},        // manifests, each with different damage
	{"i8.rounds", 10, 200},               // rounds of edits and syncs by each of four workspaces
	{"workspace.swap_ms", 2_000, 60_000}, // milliseconds in which a folder and a link swap places during a save
	{"workspace.model", 60, 5_000},       // sequences of edits, syncs and faults
	{"workspace.levels", 2_500, 4_000},   // nested folders
	{"blob.writers", 16, 64},             // writers that race for one conditional write
	{"blob.rounds", 20, 500},             // rounds of that race
	{"blob.listed", 1_100, 10_000},       // objects in one list; S3 returns 1,000 a page
	{"blob.storm", 300, 10_000},          // calls to a store that sometimes fails
	{"blob.crashes", 60, 3_000},          // power losses while objects are written
	{"i6.rounds", 1, 19},                 // rounds of pushes that are killed at each of their steps, on three stores: 39 or 741 kills
	{"dirlock.rounds", 5, 100},           // rounds of pushes of one directory by each of four clients
	{"unconditional.rounds", 6, 100},     // rounds of writing and saving by each of four clients, at two servers
	{"blob.versions", 25, 2_000},         // power losses while versions are saved
	{"workspace.listed", 6_000, 999_999}, // versions in one history
	{"workspace.folder", 500, 500_000},   // files in one folder
	{"workspace.crashes", 4, 300},        // sequences with processes that are killed
	{"workspace.crashes_s3", 1, 60},      // sequences with processes that are killed, on S3
	{"blob.folder", 20_000, 1_000_000},   // objects in one folder
	{"acp.agents", 2, 12},                // agents that speak ACP; the first two are Goose and OpenCode
	{"page.agents", 3, 7},                // agents whose commands on the page are typed; they are in its order
	{"claude.versions", 2, 3},            // versions of the CLI; the third is the newest
	{"transcript.writers", 6, 24},        // writers of one message at once
	{"transcript.rounds", 4, 100},        // rounds of that race
	{"transcript.messages", 120, 2_000},  // messages in one conversation
	{"transcript.storm", 60, 3_000},      // messages over an unreliable network
}

// Torture reports whether BERTH_TORTURE is set, so that [Size] returns the numbers for torture runs.
func Torture() bool {
	v := os.Getenv("BERTH_TORTURE")
	return v != "" && v != "0"
}

// Size returns a number from the table in sizes.go by its name. The test fails if the table has no such name.
func Size(t testing.TB, name string) int {
	t.Helper()
	for _, s := range sizes {
		if s.name != name {
			continue
		}
		if Torture() {
			return s.torture
		}
		return s.short
	}
	t.Fatalf("testkit.Size: no size %q; add a line to internal/testkit/sizes.go", name)
	return 0
}
