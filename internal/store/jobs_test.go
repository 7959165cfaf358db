package store_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/store"
)

// jobVar makes this test binary do one job in a process of its own.
const jobVar = "BERTH_STORE_TEST_JOB"

var jobs = map[string]func() int{"hold": holdDataDir}

// holdDataDir opens the store of the directory in its first argument, says so, and keeps it until
// its input ends.
func holdDataDir() int {
	db, err := store.Open(context.Background(), store.Options{DataDir: os.Getenv("DIR")})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("open")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := db.Close(); err != nil {
		return 1
	}
	return 0
}

// startHolder returns once another process has the data directory open.
func startHolder(t *testing.T, dir string) (*exec.Cmd, io.Closer) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), jobVar+"=hold", "DIR="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	noError(t, err)
	out, err := cmd.StdoutPipe()
	noError(t, err)
	noError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "open" {
		t.Fatalf("other process says %q (%v)", line, err)
	}
	return cmd, in
}
