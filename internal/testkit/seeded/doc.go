// Package seeded proves that tests can fail. A seeded bug is a patch in the folder bugs that removes
// one safeguard from Berth. Its header says what breaks and names the tests that must fail:
//
//	Breaks: a holder that lost its lease can still write
//	Test: ./internal/store ^TestStaleHolderWritesNothing$ always
//	Test: ./internal/engine ^TestStoppedHolderNeverCommits$
//
//	diff --git a/internal/store/lease.go b/internal/store/lease.go
//	…
//
// [Main] is the command seeded. It applies each patch to copies of the files, passes them to the build
// with -overlay, and fails unless the tests ran and failed. [Check] finds patches that do not apply and
// tests that do not exist. No product file, build tag or branch exists only for a seeded bug.
package seeded
