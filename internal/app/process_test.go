package app_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/app"
	"github.com/berthdev/berth/internal/cli"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/driver"
	driverlocal "github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/dynamotest"
	"github.com/berthdev/berth/internal/testkit/pgtest"
)

const (
	roleEnv = "BERTH_APP_ROLE"
	exeEnv  = "BERTH_APP_EXE" // the program that becomes the helper in sandboxes
	testKey = "test-key-of-thirty-two-characters"

	insideEnv = "BERTH_APP_INSIDE" // set: the server serves the ways out of sandboxes itself, as embedding programs do
)

// TestMain runs this binary as a server when a test asked for one: a process of its own, which can be
// stopped and killed as a real one.
func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) == "serve" {
		os.Exit(cli.Main([]string{"serve"}, cli.Deps{
			Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.LookupEnv, Serve: serve,
		}))
	}
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(pgtest.Main(m))
}

// prepare sets up the process of the tests. All servers of object stores and message stores have the same credentials, so
// no test needs to change the environment, which would keep it from running beside others.
func prepare() error {
	for name, value := range dynamotest.Env() {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return testkit.RunAtOnce(8)
}

func serve(ctx context.Context, cfg *config.Loaded, out io.Writer) error {
	o := app.Options{Config: cfg, Out: out, Exe: os.Getenv(exeEnv), Gateway: os.Getenv(exeEnv), At: killAt(os.Getenv(killEnv))}
	if os.Getenv(insideEnv) != "" {
		o.Gateway = ""
	}
	if os.Getenv(standInEnv) != "" {
		o.Prober = new(standIn)
	}
	s, err := app.NewServer(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(s.Serve(ctx), s.Close())
}

// onBoth runs the test on servers with a fresh SQLite and with a fresh PostgreSQL.
func onBoth(t *testing.T, test func(t *testing.T, env []string)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, fresh(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, append(fresh(t), "DATABASE_URL="+storetest.Postgres(t)))
	})
}

// fresh is the environment of a server that has nothing yet, with the fake driver.
func fresh(t *testing.T) []string {
	return append(local(t), "BERTH_DEFAULT_DRIVER=fake")
}

// local is the environment of a server with real sandboxes, which end with the test.
func local(t *testing.T) []string {
	dir := t.TempDir()
	t.Cleanup(func() { endAll(t, filepath.Join(dir, "local")) })
	return []string{
		"BERTH_DATA_DIR=" + dir, "BERTH_LISTEN=127.0.0.1:0", "BERTH_API_KEY=" + testKey, "BERTH_LOG_LEVEL=debug", "BERTH_LOG_FORMAT=text",
		exeEnv + "=" + testkit.Binary(t),
	}
}

// endAll ends every instance that is left in the directory.
func endAll(t *testing.T, dir string) {
	if _, err := os.Stat(dir); err != nil {
		return
	}
	d, err := driverlocal.New(context.Background(), driverlocal.Options{Dir: dir, Tier: driverlocal.TierRoot})
	if err != nil {
		t.Error(err)
		return
	}
	for st, err := range d.List(context.Background(), driver.Selector{}) {
		if err == nil {
			err = d.Destroy(context.Background(), st.ID)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(d.WaitIdle(context.Background()), d.Close()); err != nil {
		t.Error(err)
	}
}

// process is a server process.
type process struct {
	cmd  *exec.Cmd
	url  string
	logs *logs
}

// logs is what the process wrote to standard error, safe to read while it writes.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// launch starts a server process without waiting for it.
func launch(t *testing.T, env []string) (*process, io.Reader) {
	t.Helper()
	return launchAs(t, exec.Command(os.Args[0]), env)
}

// launchAs is launch with a command that ends by running this binary.
func launchAs(t *testing.T, cmd *exec.Cmd, env []string) (*process, io.Reader) {
	t.Helper()
	cmd.Env = append(append(os.Environ(), roleEnv+"=serve", "BERTH_LOG_FORMAT=text"), env...)
	p := &process{cmd: cmd, logs: new(logs)}
	cmd.Stderr = p.logs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the server's log:\n%s\n…\n%s", troubles(p.logs.String()), lastLines(p.logs.String(), 40))
		}
	})
	return p, out
}

var readyLine = regexp.MustCompile(`is ready: (https?://\S+)/docs`)

// start starts a server process and waits until it says where it listens.
func start(t *testing.T, env []string) *process {
	t.Helper()
	return startAs(t, exec.Command(os.Args[0]), env)
}

func startAs(t *testing.T, cmd *exec.Cmd, env []string) *process {
	t.Helper()
	p, out := launchAs(t, cmd, env)
	if !p.greeted(out) {
		t.Fatalf("the server did not start:\n%s", p.logs)
	}
	return p
}

// tryStart is start for a server that may end before it says anything.
func tryStart(t *testing.T, env []string) (p *process, up bool) {
	t.Helper()
	p, out := launch(t, env)
	return p, p.greeted(out)
}

// greeted waits until the server says where it listens, or ends.
func (p *process) greeted(out io.Reader) bool {
	for in := bufio.NewScanner(out); in.Scan(); {
		if m := readyLine.FindStringSubmatch(in.Text()); m != nil {
			p.url = m[1]
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return true
		}
	}
	return false
}

// refused starts a server process that must not come up, and returns what it said.
func refused(t *testing.T, env []string) string {
	t.Helper()
	p, out := launch(t, env)
	done := make(chan error, 1)
	go func() {
		_, _ = io.Copy(io.Discard, out)
		done <- p.cmd.Wait()
	}()
	select {
	case err := <-done:
		if err == nil || p.cmd.ProcessState.ExitCode() != 125 {
			t.Fatalf("exit: %v\n%s", err, p.logs)
		}
	case <-time.After(time.Minute):
		t.Fatal("the server came up")
	}
	return p.logs.String()
}

// end sends SIGTERM and returns how the process ended.
func (p *process) end(t *testing.T) error {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	return p.cmd.Wait()
}

func (p *process) client(t *testing.T, opts ...client.Option) *client.Client {
	t.Helper()
	return p.clientOf(t, testKey, opts...)
}

// clientOf is a client with a key of its own.
func (p *process) clientOf(t *testing.T, key string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(p.url, key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// troubles are the lines of a log that tell of something broken.
func troubles(log string) string {
	var lines []string
	for line := range strings.Lines(log) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") || strings.Contains(line, "httputil") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lastLines(strings.Join(lines, "\n"), 40)
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// value returns a variable of the environment.
func value(env []string, name string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}
