// Command helper is the smallest program that can become an instance's first process, and what it runs for agents.
package main

import (
	"os"

	_ "github.com/berthdev/berth/internal/acp/client"
	_ "github.com/berthdev/berth/internal/acp/relay"
	_ "github.com/berthdev/berth/internal/guest/pid1"
)

func main() { os.Exit(2) }
