package engine_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
)

// A test that needs a second server, or one that it may stop and kill, runs this binary again in a
// role. The script tells it what to do; it says "ready", waits for a line, and acts.
const (
	roleEnv   = "BERTH_ENGINE_ROLE"
	scriptEnv = "BERTH_ENGINE_SCRIPT"
)

// script is what a second server does.
type script struct {
	Place  place
	Owners []string
	// Stall names owners over whose first lease the holder dozes off, before it has written anything;
	// it wakes in the middle of its successor's create, which takes its time.
	Stall []string
	// Point is where it stops or kills itself, once all owners are there.
	Point  string
	Delete bool // delete the owners' sandboxes instead of ensuring them
}

// actor is a second server under a test's control.
type actor struct {
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Scanner
}

func start(t *testing.T, role string, s script) *actor {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	r, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role, scriptEnv+"="+string(raw))
	cmd.Stdin, cmd.Stderr = r, os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	a := &actor{cmd, in, bufio.NewScanner(stdout)}
	t.Cleanup(func() {
		_ = a.cmd.Process.Kill()
		_, _ = a.cmd.Process.Wait()
		_ = a.in.Close()
	})
	a.expect(t, "ready")
	return a
}

// expect reads the actor's next line.
func (a *actor) expect(t *testing.T, want string) {
	t.Helper()
	if !a.out.Scan() || a.out.Text() != want {
		t.Fatalf("the second server said %q, not %q", a.out.Text(), want)
	}
}

// done reads the actor's last line: how often a work of its was refused as stale, and how many of
// those had begun to create.
func (a *actor) done(t *testing.T) (stale, begun int) {
	t.Helper()
	a.out.Scan()
	if _, err := fmt.Sscanf(a.out.Text(), "done, %d stale, %d begun", &stale, &begun); err != nil {
		t.Errorf("the second server said %q", a.out.Text())
	}
	return stale, begun
}

func (a *actor) tell(t *testing.T) {
	t.Helper()
	if _, err := fmt.Fprintln(a.in, "go"); err != nil {
		t.Fatal(err)
	}
}

// stopped waits until the actor has stopped itself with SIGSTOP.
func (a *actor) stopped(t *testing.T) {
	t.Helper()
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(a.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || !status.Stopped() {
			t.Fatalf("the second server did not stop itself: %v, %v", err, status)
		}
		return
	}
}

// play is the second server's main.
func play(role string) int {
	var s script
	if err := json.Unmarshal([]byte(os.Getenv(scriptEnv)), &s); err != nil {
		return fail(err)
	}
	hooks := &hooks{script: s}
	srv, err := open(s.Place, func(o *engine.Options) { o.At = hooks.at(role) })
	if err != nil {
		return fail(err)
	}
	fmt.Println("ready")
	bufio.NewScanner(os.Stdin).Scan()
	if err := srv.all(s); err != nil {
		return fail(err)
	}
	fmt.Printf("done, %d stale, %d begun\n", hooks.stale.Load(), hooks.begun.Load())
	return 0
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "second server:", err)
	return 1
}

// all ensures, or deletes, every owner's sandbox at once, in its own order. A holder that lost
// its lease is not an error: it waits for the winner's result.
func (s *server) all(sc script) error {
	var g errgroup.Group
	g.SetLimit(max(8+len(sc.Stall), hold(sc)))
	for _, i := range rand.Perm(len(sc.Owners)) {
		g.Go(func() error { return s.act(sc, project(sc.Owners[i])) })
	}
	return g.Wait()
}

// hold is how many must be under way at once for all to meet at a point.
func hold(sc script) int {
	if sc.Point == "" {
		return 0
	}
	return len(sc.Owners)
}

func (s *server) act(sc script, owner sandbox.Owner) error {
	ctx := context.Background()
	if !sc.Delete {
		return retried(func() error {
			_, _, err := s.Ensure(ctx, engine.Request{Owner: owner, Actor: "test"})
			return err
		})
	}
	sb, err := s.db.In("default").ByOwner(ctx, owner.Kind, owner.ID)
	if err == nil {
		_, err = s.Engine.Delete(ctx, "default", sb.ID, "test", false)
	}
	return err
}

// retried does what every client does with an answer that says it may be asked again: a busy machine
// may take longer for a connection than the store waits for it.
func retried(f func() error) error {
	for range 20 {
		var e *fault.Error
		err := f()
		if !errors.As(err, &e) || !e.Retry || e.Code != api.CodeStoreUnavailable {
			return err
		}
		<-time.After(250 * time.Millisecond)
	}
	return f()
}

// hooks are what happens at the named points of the second server's work.
type hooks struct {
	script  script
	stale   atomic.Int64
	begun   atomic.Int64
	arrived atomic.Int64
	all     sync.WaitGroup
}

func (h *hooks) at(role string) func(string, sandbox.Sandbox) {
	h.all.Add(1)
	stall := map[string]bool{}
	for _, o := range h.script.Stall {
		stall[o] = true
	}
	return func(point string, s sandbox.Sandbox) {
		if point == "stale" {
			h.stale.Add(1)
			if s.State == sandbox.Creating {
				h.begun.Add(1)
			}
		}
		switch {
		case point == "after-lease" && stall[s.Owner.ID] && s.Generation == 1:
			<-time.After(h.script.Place.LeaseTTL + 800*time.Millisecond)
		case point == "after-begin" && stall[s.Owner.ID] && s.Generation > 1:
			<-time.After(1500 * time.Millisecond)
		}
		if point == h.script.Point {
			h.meet(role)
		}
	}
}

// meet gathers all owners' work at the point. Then the process stops or kills itself, once, and no caller
// goes on before that has happened: other threads run on for a moment after the signal is sent.
func (h *hooks) meet(role string) {
	if h.arrived.Add(1) < int64(len(h.script.Owners)) {
		h.all.Wait()
		return
	}
	if role == "killed" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	last := time.Now()
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	for time.Since(last) < h.script.Place.LeaseTTL/2 {
		last = time.Now()
		<-time.After(time.Millisecond)
	}
	h.all.Done()
}
