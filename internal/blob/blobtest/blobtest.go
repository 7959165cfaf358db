// Package blobtest is the suite that every object store passes: what Berth relies on, as code.
//
// A store's own test calls [Run] with a [Harness], and [Storm] with a store that fails now and then: a
// failure is allowed there, a wrong answer is not. [Race] is the part about conditional writes alone, for
// stores that are opened twice.
package blobtest

import (
	"slices"
	"testing"

	"github.com/berthdev/berth/internal/blob"
)

// Harness is how the suite gets at a store.
type Harness struct {
	// New opens an empty store. It is called for each sub-test and cleans up by t.Cleanup.
	New func(t *testing.T) blob.Store

	// Flat is a store that cannot hold "a" and "a/b" at once, as some servers that keep objects in files.
	Flat bool

	// Rough is a store behind a bad network, which may not be able to tell what became of a conditional
	// write, and may find an object replaced while it reads on. The parts about that are left out.
	Rough bool
}

// exact are the parts that a rough store is spared.
var exact = []string{"Conditions", "LargeConditions", "Probe", "Race", "Counter", "ReadersSeeWholeObjects"}

// Run runs the whole suite as sub-tests of t.
func Run(t *testing.T, h Harness) {
	for _, part := range []struct {
		name string
		test func(*suite)
	}{
		{"WhatIsPutIsGot", testRoundTrip},
		{"Ranges", testRanges},
		{"MissingObjects", testMissing},
		{"Overwrite", testOverwrite},
		{"Conditions", testConditions},
		{"LargeObjects", testLarge},
		{"LargeConditions", testLargeConditions},
		{"ReadersThatFail", testReaders},
		{"Copy", testCopy},
		{"Keys", testKeys},
		{"BadKeys", testBadKeys},
		{"BadArguments", testBadArguments},
		{"ListOrder", testListOrder},
		{"ListFolders", testListFolders},
		{"ListPages", testListPages},
		{"ListStops", testListStops},
		{"DeleteMany", testDeleteMany},
		{"EndedContext", testEndedContext},
		{"ReadersSeeWholeObjects", testWhole},
		{"Probe", testProbe},
		{"Address", testAddress},
		{"Race", func(s *suite) { Race(s.T, s.s, s.s) }},
		{"Counter", func(s *suite) { s.check(Count(s.T, s.s, s.s) == 0, "steps failed") }},
	} {
		if h.Rough && slices.Contains(exact, part.name) {
			continue
		}
		t.Run(part.name, func(t *testing.T) { part.test(newSuite(t, h)) })
	}
}
