// Package transcripttest is the conformance suite for message stores.
//
// The test of a store calls [Run] with a function that opens an empty store. [Race] tests concurrent writers of one
// message. A store that several servers share runs it with two open stores.
package transcripttest

import (
	"testing"

	"github.com/berthdev/berth/internal/transcript"
)

// Run runs the whole suite as sub-tests of t. It calls open for each sub-test. The store must contain no messages of
// the tenants "acme" and "globex". open registers its clean-up with t.Cleanup.
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
