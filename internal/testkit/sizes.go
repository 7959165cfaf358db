package testkit

import (
	"os"
	"testing"
)

// size is how much of something a test does: short in make test, torture in make torture.
type size struct {
	name           string
	short, torture int
}

// sizes is the one place for the numbers that make a test long. A name is
// "<experiment>.<what is counted>".
var sizes = []size{
	{"i1.processes", 8, 8},               // racing for the same owners
	{"i1.owners", 1_000, 10_000},         // each gets exactly one create
	{"i1.engines", 250, 10_000},          // owners, raced for by eight engines of one server
	{"i3.hits", 100, 2_000},              // of the window between create and commit
	{"i4.creates", 60, 1_000},            // while a sweep runs all the time
	{"i14.deletes", 40, 1_000},           // racing uses of the same sandboxes
	{"matrix.each", 4, 100},              // of each row of the failure matrix, and each pair
	{"i10.keys", 400, 20_000},            // idempotency keys, each sent many times at once
	{"i1.servers", 3, 8},                 // real ones, racing for the same owners
	{"i1.raced", 100, 2_000},             // owners, over HTTP
	{"i2.kills", 8, 300},                 // of servers under load
	{"i13.clients", 50, 50},              // at once, of a few owners
	{"i13.operations", 200, 2_000},       // of each client
	{"i13.seeds", 10, 100},               // histories
	{"owners.owners", 24, 500},           // that use sandboxes under every fault
	{"owners.faults", 8, 60},             // one after the other
	{"outage.seconds", 4, 30},            // that the database is away
	{"network.rounds", 2, 30},            // of latency and broken connections
	{"rolling.restarts", 1, 30},          // of a whole fleet
	{"kill.servers", 30, 300},            // kill -9 under load, spread over the windows
	{"kill.turns", 15, 100},              // kill -9 in the middle of a turn, spread over the windows
	{"list.rows", 100_000, 1_000_000},    // behind every list endpoint
	{"resolve.rows", 10_000, 1_000_000},  // sandboxes in the table while one is resolved
	{"property.checks", 200, 20_000},     // examples per property
	{"local.depth", 5_000, 100_000},      // levels of a tree that is removed
	{"local.powerlosses", 1, 20},         // after each operation of a local sandbox's life
	{"pgtest.databases", 3, 100},         // cloned at once from one template
	{"files.levels", 4_000, 20_000},      // folders within folders
	{"files.entries", 100_000, 500_000},  // in one folder
	{"files.swap_ms", 2_000, 60_000},     // of a folder and a link that change places
	{"i9.posts", 60, 2_000},              // of prompts, at servers that are killed
	{"i9.kills", 8, 300},                 // of servers meanwhile
	{"i9.outages", 1, 2},                 // of their database, or of the message store
	{"i9.seconds", 2, 30},                // that each lasts
	{"i9.conversations", 6, 1_000},       // which the prompts are for
	{"i12.wires", 24, 1_000},             // streams over HTTP, each cut off and resumed
	{"i12.kills", 4, 100},                // of servers meanwhile
	{"i12.streams", 100, 1_000},          // of turns, each cut off and resumed
	{"i12.cuts", 3, 5},                   // of each
	{"quota.racers", 64, 1_000},          // for the last places there are
	{"quota.steps", 200, 20_000},         // that make and delete sandboxes at random
	{"egress.tunnels", 1_000, 4_000},     // open at once through one proxy
	{"i7.manifests", 500, 20_000},        // damaged, each in another way
	{"i8.rounds", 10, 200},               // of edits and syncs by each of four
	{"workspace.swap_ms", 2_000, 60_000}, // of a folder and a link that change places while it is saved
	{"workspace.model", 60, 5_000},       // sequences of edits, syncs and faults
	{"workspace.levels", 2_500, 4_000},   // folders within folders
	{"blob.writers", 16, 64},             // racing for one conditional write
	{"blob.rounds", 20, 500},             // of that race
	{"blob.listed", 1_100, 10_000},       // objects of one list; S3 gives 1,000 at a time
	{"blob.storm", 300, 10_000},          // calls of a store that fails now and then
	{"blob.crashes", 60, 3_000},          // power losses while objects are written
	{"i6.rounds", 1, 19},                 // of pushes killed in every window, on three stores: 39 kills, 741
	{"dirlock.rounds", 5, 100},           // of pushes of one directory by each of four
	{"unconditional.rounds", 6, 100},     // of writing and saving by each of four, at two servers
	{"blob.versions", 25, 2_000},         // power losses while versions are saved
	{"workspace.listed", 6_000, 999_999}, // versions of one history
	{"workspace.folder", 500, 500_000},   // files in one folder
	{"workspace.crashes", 4, 300},        // sequences with processes that are killed
	{"workspace.crashes_s3", 1, 60},      // the same on S3
	{"blob.folder", 20_000, 1_000_000},   // objects in one folder
	{"transcript.writers", 6, 24},        // of one message
	{"transcript.rounds", 4, 100},        // of that race
	{"transcript.messages", 120, 2_000},  // in one conversation
	{"transcript.storm", 60, 3_000},      // messages over a bad network
}

// Torture reports whether the long column of the size table is in use (BERTH_TORTURE=1).
func Torture() bool {
	v := os.Getenv("BERTH_TORTURE")
	return v != "" && v != "0"
}

// Size returns the named number from the table in sizes.go. A name that is not in the table fails
// the test, so that no test keeps a size of its own.
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
