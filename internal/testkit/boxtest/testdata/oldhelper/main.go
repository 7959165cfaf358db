// Command oldhelper is a helper of an older Berth, which cannot become a client of agents.
package main

import (
	"fmt"
	"os"

	_ "github.com/berthdev/berth/internal/guest/pid1"
)

func main() {
	fmt.Fprintf(os.Stderr, "berth: %q is not a command of berth\n  hint: 'berth --help' shows its usage.\n", os.Args[1])
	os.Exit(125)
}
