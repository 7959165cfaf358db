// Command attacker tries to do one thing that a sandbox must not let it do.
//
// It is one static program, so that the very same code runs as a plain process, where it must succeed,
// and in a sandbox, where it must not. It ends with 0 when it got what it wanted, which it prints; with 1
// when it was stopped, saying by what; with 2 when it was called wrongly.
package main

import (
	"errors"
	"fmt"
	"os"
)

// The exit codes.
const (
	succeeded = iota
	stopped
	misused
)

// attacks are the things to try, by name. Each takes the words that follow its name.
var attacks = map[string]func(args []string) error{
	// files.go
	"read": read, "list": list, "link": link, "rewrite": rewrite, "search": search, "handle": handle,
	"chroot": escapeChroot, "device": device, "open": open,
	// processes.go
	"processes": processes, "kill": kill, "everyone": killEveryone, "trace": trace, "peek": peek, "steal": steal,
	"hold": hold, "nothing": func([]string) error { return nil },
	// privileges.go
	"capabilities": capabilities, "unbound": unbound, "become": become, "bless": bless,
	// spaces.go
	"clone": clone, "clone3": clone3, "unshare": unshare, "setns": setns, "mount": mount, "unmount": unmount, "releaseagent": releaseAgent,
	// calls.go
	"call": call, "socket": socket, "int80": int80, "inject": inject, "injected": injected,
	// network.go
	"connect": connect, "interfaces": interfaces, "hostname": hostname, "segment": segment, "queue": queue,
	// hogs.go
	"fork": fork, "memory": memory, "fill": fill, "descriptors": descriptors, "swap": swap,
}

func main() {
	if len(os.Args) < 2 || attacks[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: attacker NAME [WORD...]")
		os.Exit(misused)
	}
	err := attacks[os.Args[1]](os.Args[2:])
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "wrong words for", os.Args[1:])
		os.Exit(misused)
	case err != nil:
		fmt.Fprintln(os.Stderr, "stopped:", err)
		os.Exit(stopped)
	}
}

var errUsage = errors.New("usage")

// words returns exactly n words.
func words(args []string, n int) ([]string, error) {
	if len(args) != n {
		return nil, errUsage
	}
	return args, nil
}
