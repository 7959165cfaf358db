// Package report turns the output of "go test -json" into something to read and judges it.
//
// [Main] is the command testreport. It prints a line per package as it ends and the whole output
// of every failing test; then it joins the results with docs/requirements.md ([ReadTable]), refuses
// skips that internal/testkit/allowed_skips.txt does not name, lists the slowest tests, and closes
// with the counts. [Events] reads the stream for other tools.
package report
