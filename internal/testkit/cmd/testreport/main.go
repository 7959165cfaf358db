// Command testreport prints and judges the output of "go test -json"; see package report.
package main

import (
	"os"

	"github.com/berthdev/berth/internal/testkit/report"
)

func main() { os.Exit(report.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
