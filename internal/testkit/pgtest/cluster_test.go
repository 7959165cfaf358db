package pgtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/berthdev/berth/internal/testkit"
)

// victim makes this test binary start a cluster, say where it is, and wait to be killed.
const victim = "BERTH_PGTEST_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victim) != "" {
		waitToBeKilled()
	}
	code := Main(m)
	if c, err := playground(); err == nil {
		_ = c.Close() // the guard removes what is left
	}
	os.Exit(code)
}

// playground is a cluster for the tests that only need one to stop and start.
var playground = sync.OnceValues(func() (*Cluster, error) { return Start(context.Background(), Options{}) })

// borrow returns the running playground.
func borrow(t *testing.T) *Cluster {
	t.Helper()
	c, err := playground()
	if err == nil {
		err = c.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func waitToBeKilled() {
	c, err := Start(context.Background(), Options{})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(c.server.process.Pid, c.dir)
	select {}
}

func startCluster(t *testing.T, opts Options) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func query(ctx context.Context, url, sql string) (string, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var got string
	return got, conn.QueryRow(ctx, sql).Scan(&got)
}

func TestClusterKeepsDataAndAddressOverStops(t *testing.T) {
	ctx := t.Context()
	c := startCluster(t, Options{Settings: map[string]string{"max_connections": "17"}})
	url := c.URL("")
	if err := c.Exec(ctx, "create table kept as select 'still here' as word"); err != nil {
		t.Fatal(err)
	}
	// Kill comes last: without fsync it may lose what no orderly stop has written.
	for _, end := range []func() error{c.Stop, c.Kill} {
		if err := errors.Join(end(), end()); err != nil {
			t.Fatal(err)
		}
		if _, err := query(ctx, url, "select 'x'"); err == nil {
			t.Fatal("a stopped server still answers")
		}
		if err := c.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if got, err := query(ctx, url, "select word from kept"); got != "still here" {
			t.Errorf("after a start: %q, %v", got, err)
		}
	}
	if err := c.Start(ctx); err != nil {
		t.Errorf("start of a running server: %v", err)
	}
	if got, err := query(ctx, url, "show max_connections"); got != "17" {
		t.Errorf("max_connections %q, %v", got, err)
	}
}

func TestDurableClusterSurvivesKill(t *testing.T) {
	ctx := t.Context()
	c := startCluster(t, Options{Durable: true})
	if got, err := query(ctx, c.URL(""), "show fsync"); got != "on" {
		t.Fatalf("fsync %q, %v", got, err)
	}
	if err := c.Exec(ctx, "create table kept as select 'still here' as word"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Kill(), c.Start(ctx)); err != nil {
		t.Fatal(err)
	}
	if got, err := query(ctx, c.URL(""), "select word from kept"); got != "still here" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestPortNeedsPassword(t *testing.T) {
	c := borrow(t)
	url := strings.Replace(c.URL(""), c.password, "wrong", 1)
	if _, err := query(t.Context(), url, "select 'x'"); err == nil || !strings.Contains(err.Error(), "password") {
		t.Errorf("a wrong password: %v, want a refusal", err)
	}
	if info, err := os.Stat(c.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder %v, %v; want mode 0700", info, err)
	}
}

func TestStartPicksAnotherPortWhenTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c := borrow(t)
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	defer func() { c.freePort = freePort }()
	calls := 0
	c.freePort = func() (int, error) {
		if calls++; calls == 1 {
			return taken.Addr().(*net.TCPAddr).Port, nil
		}
		return freePort()
	}
	if err := c.startOnFreePort(t.Context()); err != nil || calls != 2 {
		t.Fatalf("%d calls, %v; want a start at the second port", calls, err)
	}
	if c.Addr() == taken.Addr().String() {
		t.Error("the server claims the taken port")
	}

	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	c.freePort = func() (int, error) { return 0, errors.New("no ports") }
	if err := c.startOnFreePort(t.Context()); err == nil || !strings.Contains(err.Error(), "no ports") {
		t.Errorf("no free port: %v", err)
	}
}

func TestStartShowsLogOnBadSettings(t *testing.T) {
	_, err := Start(t.Context(), Options{Settings: map[string]string{"no_such_setting": "1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("%v, want the server's own words", err)
	}
}

func TestStartHeedsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before initdb: %v", err)
	}
	c := borrow(t)
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before the server was ready: %v", err)
	}
}

func TestCloseRemovesEverything(t *testing.T) {
	c, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	pid := c.server.process.Pid
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
	if err := gone(pid, c.dir); err != nil {
		t.Error(err)
	}
	if err := c.Exec(t.Context(), "select 1"); err == nil {
		t.Error("a closed cluster still answers")
	}
	if err := c.Start(t.Context()); err == nil {
		t.Error("a closed cluster starts again")
	}
}

func TestKilledTestLeavesNothing(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), victim+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var dir string
	if _, err := fmt.Fscanln(bufio.NewReader(out), &pid, &dir); err != nil {
		t.Fatal(err)
	}
	if gone(pid, dir) == nil {
		t.Fatal("the victim's server does not run")
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	testkit.Eventually(t, 60*time.Second, func() error { return gone(pid, dir) })
}

func gone(pid int, dir string) error {
	if err := syscall.Kill(pid, 0); err == nil {
		return fmt.Errorf("process %d runs", pid)
	}
	if _, err := os.Stat(dir); err == nil {
		return fmt.Errorf("%s exists", dir)
	}
	return nil
}
