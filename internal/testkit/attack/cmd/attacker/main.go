// Command attacker tries one attack that a sandbox must prevent.
//
// It is one static program, so that the same code runs as a plain process, where the attack must succeed,
// and in a sandbox, where it must fail. The exit code is 0 if the attack succeeded, and its result is printed; 1 if
// the attack was stopped, and the error is printed; 2 if the arguments are wrong.
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

// attacks lists the attacks by name. Each gets the arguments after its name.
var attacks = map[string]func(args []string) error{
	// files.go
	"read": read, "list": list, "link": link, "rewrite": rewrite, "search": search, "handle": handle,
	"chroot": escapeChroot, "device": device, "open": open, "whiteout": whiteout, "opaque": opaque,
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
	"fork": fork, "memory": memory, "lock": lock, "fill": fill, "descriptors": descriptors, "swap": swap,
	// inflight.go
	"inflight": inflight,
	// counters.go
	"take": take,
	// buffers.go
	"buffers": buffers, "connections": connections,
	// storms.go
	"bomb": bomb, "storm": storm, "spin": spin, "flood": flood,
	// siege.go
	"siege": siege,
	// disk.go
	"unlinked": unlinked, "inodes": inodes, "sparse": sparse, "print": printMebibytes,
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

// wordAndNumber parses the two arguments of attacks that take a word and a number.
func wordAndNumber(args []string) (word string, n int, err error) {
	if len(args) != 2 {
		return "", 0, errUsage
	}
	numbers, err := number(args[1:], 1)
	if err != nil {
		return "", 0, err
	}
	return args[0], numbers[0], nil
}

// words returns the arguments, or errUsage if there are not exactly n.
func words(args []string, n int) ([]string, error) {
	if len(args) != n {
		return nil, errUsage
	}
	return args, nil
}
