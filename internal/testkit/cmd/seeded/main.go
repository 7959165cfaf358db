// Command seeded runs the tests that must notice Berth's seeded bugs; see package seeded.
package main

import (
	"os"

	"github.com/berthdev/berth/internal/testkit/seeded"
)

func main() { os.Exit(seeded.Main(os.Args[1:], os.Stdout, os.Stderr)) }
