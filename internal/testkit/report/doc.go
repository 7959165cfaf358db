// Package report turns the output of "go test -json" into a readable report and checks it against rules.
//
// [Main] is the command testreport. It prints a line for each package that ends and the whole output
// of every failed test. With -again it runs the failed tests once more, alone, and lists those that then
// pass as unstable. Then it compares the results with docs/requirements.md ([ReadTable]), refuses
// skips that internal/testkit/allowed_skips.txt does not list, lists the slowest tests, and prints the
// counts last. [Events] reads the stream of events for other tools.
package report
