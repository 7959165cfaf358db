// Package seeded proves that tests can fail. A seeded bug is a build tag that begins with seeded_
// and takes one safeguard out of Berth; internal/testkit/seeded.txt lists each with the test that
// must notice.
//
// [Main] is the command seeded: for every bug ([ParseList]) it runs the test with the tag and fails
// unless the test itself ran and failed. [Check] makes sure that the list and the tree agree and
// that a release build has no bug in it.
package seeded
