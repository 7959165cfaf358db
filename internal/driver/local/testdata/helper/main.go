// Command helper is the smallest program that can become an instance's first process.
package main

import (
	"os"

	_ "github.com/berthdev/berth/internal/guest/pid1"
)

func main() { os.Exit(2) }
