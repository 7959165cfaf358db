// Package blobtest contains the tests that every object store must pass.
//
// The test of a store calls [Run] with a [Harness]. It may call [Storm] with a store that fails at random: such a
// store may fail, but must not return wrong results. [Race] tests only conditional writes, for two stores on the
// same location.
package blobtest

import (
	"slices"
	"testing"

	"github.com/berthdev/berth/internal/blob"
)

// Harness describes the store under test.
type Harness struct {
	// New opens an empty store for one sub-test. It removes the store with t.Cleanup.
	New func(t *testing.T) blob.Store

	// Flat is set for a store that cannot hold "a" and "a/b" at once, like some servers that keep objects in files.
	Flat bool

	// Rough is set for a store with an unreliable network. It may be unknown whether a conditional write took
	// effect, and an object may be replaced during a read. The tests in exact are skipped.
	Rough bool
}

// exact lists the tests that need a reliable network.
var exact = []string{"Conditions", "LargeConditions", "Probe", "Race", "Counter", "ReadersSeeWholeObjects"}

// Run runs all tests as sub-tests of t.
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
