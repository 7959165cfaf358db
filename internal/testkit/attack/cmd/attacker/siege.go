package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// resources lists the attacks on limited resources of a machine, with their arguments. Each has a limit or ends with
// the siege. {dir} is a directory to write in, {s} the number of seconds that remain.
var resources = []string{
	"spin 16 {s}",
	"storm {dir} {s}",
	"unlinked {dir} 512",
	"inodes {dir} 50000",
	"sparse {dir} 16",
	"memory 4096",
	"buffers tcp 2048",
	"buffers udp 2048",
	"take instances 0",
	"take watches 0",
	"take terminals 0",
	"take timers 0",
	"take queues 0",
	"take requests 0",
	"descriptors 0",
	"flood {s}",
	"bomb {s}", // the last one, because no other process can be started after it
}

// siege runs all attacks on resources at once for the given number of seconds. It restarts an attack that ends early.
func siege(args []string) error {
	what, n, err := wordAndNumber(args)
	if err != nil {
		return err
	}
	end := time.Now().Add(time.Duration(n) * time.Second)
	var all sync.WaitGroup
	for _, attack := range resources {
		all.Go(func() { repeatUntil(attack, what, end) })
		time.Sleep(20 * time.Millisecond)
	}
	fmt.Println("here")
	all.Wait()
	return nil
}

// repeatUntil runs an attack repeatedly until the given time, and then kills it.
func repeatUntil(attack, dir string, end time.Time) {
	for left := time.Until(end); left > 0; left = time.Until(end) {
		seconds := strconv.Itoa(int(left.Seconds()) + 1)
		argv := strings.Fields(strings.NewReplacer("{dir}", dir, "{s}", seconds).Replace(attack))
		cmd := exec.Command("/proc/self/exe", argv...)
		if argv[0] == "flood" {
			cmd.Stdout = os.Stdout
		}
		if err := cmd.Start(); err == nil {
			proc := filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "oom_score_adj")
			_ = os.WriteFile(proc, []byte("1000"), 0) // the kernel then kills the attack before the siege
			timer := time.AfterFunc(time.Until(end), func() { _ = cmd.Process.Kill() })
			_ = cmd.Wait()
			timer.Stop()
		}
		time.Sleep(50 * time.Millisecond)
	}
}
