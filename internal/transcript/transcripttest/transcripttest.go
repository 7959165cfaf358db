// Package transcripttest is the suite that every store of messages passes: what Berth relies on, as code.
//
// A store's own test calls [Run] with a way to open an empty one. [Race] is the part about writers of one
// message alone, for stores that are opened twice.
package transcripttest

import (
	"testing"

	"github.com/berthdev/berth/internal/transcript"
)

// Run runs the whole suite as sub-tests of t. It calls open for each of them; the store has nothing of the
// tenants "acme" and "globex" then, and is cleaned up by t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) transcript.Store) {
	for _, part := range []struct {
		name string
		test func(*suite)
	}{
		{"WhatIsPutIsGot", testRoundTrip},
		{"Content", testContent},
		{"RawInput", testRawInput},
		{"LargeMessages", testLarge},
		{"TooLarge", testTooLarge},
		{"MissingMessages", testMissing},
		{"BadIDs", testBadIDs},
		{"SecondPutChangesNothing", testSecondPut},
		{"Orders", testOrders},
		{"Pages", testPages},
		{"PagesFromAnywhere", testPagesFromAnywhere},
		{"PagesOfLargeMessages", testPageBytes},
		{"PagesWhileOthersWrite", testPagesUnderWrites},
		{"All", testAll},
		{"Tenants", testTenants},
		{"Forget", testForget},
		{"ForgetWhileOthersWrite", testForgetRace},
		{"Race", func(s *suite) { Race(s.T, s.s, s.s) }},
		{"EndedContext", testEndedContext},
		{"Check", testCheck},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(&suite{t, open(t)}) })
	}
}
