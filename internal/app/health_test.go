package app_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// standInEnv gives the sandboxes of a server process an agent's server.
const standInEnv = "BERTH_APP_STAND_IN"

// agentServer answers on port 3000 of its sandbox and knows the sessions that it was told of, until it
// ends. Its process id is where tests find it.
const agentServer = `
$s = IO::Socket::INET->new(LocalAddr => "127.0.0.1:3000", Listen => 5, ReuseAddr => 1) or die $!;
open F, ">", "/tmp/agent.pid"; print F $$; close F;
while ($c = $s->accept) {
	($m, $p) = split / /, <$c>;
	while (($l = <$c>) =~ /\S/) {}
	$h{$p} = 1 if $m eq "POST";
	%h = () if $m eq "DELETE";
	print $c ($p eq "/health" || $h{$p} || $m ne "GET" ? "HTTP/1.0 200 OK\r\n\r\n" : "HTTP/1.0 404 Not Found\r\n\r\n");
	close $c;
}`

// standIn is a runtime's part in health: a real server inside, with one session per sandbox.
type standIn struct {
	mu       sync.Mutex
	sessions map[string]string // sandbox → its session
}

func (p *standIn) session(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.sessions[id], "/session/none")
}

func (p *standIn) Probe(ctx context.Context, s sandbox.Sandbox, conn guest.Conn) error {
	for _, path := range []string{"/health", p.session(s.ID)} {
		if status, err := ask(ctx, conn, "GET", path); err != nil || status != http.StatusOK {
			return fmt.Errorf("%s: %d %w", path, status, err)
		}
	}
	return nil
}

func (p *standIn) Heal(ctx context.Context, s sandbox.Sandbox, conn guest.Conn) (replaced int, err error) {
	if _, err := ask(ctx, conn, "GET", "/health"); err != nil {
		cmd := guest.Cmd{Argv: []string{"perl", "-MIO::Socket::INET", "-e", agentServer}}
		if err := conn.Start(ctx, "agent-"+store.NewID(), cmd); err != nil {
			return 0, err
		}
		for err = errors.New("not asked"); err != nil; _, err = ask(ctx, conn, "GET", "/health") {
			if ctx.Err() != nil {
				return 0, err
			}
		}
	}
	if status, err := ask(ctx, conn, "GET", p.session(s.ID)); err == nil && status == http.StatusOK {
		return 0, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions == nil {
		p.sessions = map[string]string{}
	}
	if p.sessions[s.ID] != "" {
		replaced = 1
	}
	p.sessions[s.ID] = "/session/" + store.NewID()
	_, err = ask(ctx, conn, "POST", p.sessions[s.ID])
	return replaced, err
}

func ask(ctx context.Context, conn guest.Conn, method, path string) (int, error) {
	port, err := conn.Dial(ctx, 3000)
	if err != nil {
		return 0, err
	}
	defer port.Close()
	if _, err := fmt.Fprintf(port, "%s %s HTTP/1.0\r\n\r\n", method, path); err != nil {
		return 0, err
	}
	res, err := http.ReadResponse(bufio.NewReader(port), nil)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	return res.StatusCode, nil
}

// Each failure in a real sandbox is recovered on its own, by itself: the instance stays, and its files
// do, unless it is what failed.
func TestEachFailureIsRecoveredByItself(t *testing.T) {
	testkit.Proves(t, "O4", "P4")
	t.Parallel()
	p := start(t, append(local(t), standInEnv+"=1", "BERTH_SANDBOX_HEALTH_CHECK_INTERVAL=1s", "BERTH_RECONCILE_INTERVAL=50ms"))
	c := p.client(t)
	b := make1(t, c, api.CreateSandbox{Name: "box"})
	b.sh("echo kept > f")
	for _, f := range []struct {
		name   string
		befall func()
		events []string
		logs   string
	}{
		{"the agent's server dies", func() { b.sh("kill -9 $(cat /tmp/agent.pid)") }, []string{"sick", "ready"}, "sandbox.session.replaced"},
		{"its session is lost", func() {
			b.sh(`perl -MIO::Socket::INET -e '$c = IO::Socket::INET->new("127.0.0.1:3000"); print $c "DELETE / HTTP/1.0\r\n\r\n"; <$c>'`)
		}, []string{"sick", "ready"}, "sandbox.health.retry"},
		{"the instance stops", func() { killFirst(t, c, "box") }, []string{"halted", "start", "ready"}, "sandbox start"},
	} {
		t.Run(f.name, func(t *testing.T) {
			before := newest(t, c, "box")
			f.befall()
			testkit.Eventually(t, time.Minute, func() error {
				got, err := c.Sandboxes.Get(t.Context(), "box")
				if err != nil || got.State != "running" {
					return fmt.Errorf("%s, %v", got.State, err)
				}
				var events []string
				for _, tr := range since(t, c, "box", before) {
					events = append(events, tr.Event)
				}
				// A probe may notice that the agent's server is gone before the instance is.
				if f.events[0] == "halted" && len(events) > 0 && events[0] == "sick" {
					events = events[1:]
				}
				if !slices.Equal(events, f.events) {
					return fmt.Errorf("%v", events)
				}
				return nil
			})
			b.says("cat f", "kept\n")
			if !strings.Contains(p.logs.String(), f.logs) {
				t.Errorf("the log has no %s", f.logs)
			}
		})
	}
	if err := c.Sandboxes.Delete(t.Context(), "box"); err != nil {
		t.Error(err)
	}
}

func newest(t *testing.T, c *client.Client, name string) int64 {
	t.Helper()
	for tr, err := range c.Sandboxes.History(t.Context(), name) {
		if err != nil {
			t.Fatal(err)
		}
		return tr.Seq
	}
	return 0
}

// since are the transitions after the given one, oldest first.
func since(t *testing.T, c *client.Client, name string, seq int64) (found []api.Transition) {
	t.Helper()
	for tr, err := range c.Sandboxes.History(t.Context(), name) {
		if err != nil {
			t.Fatal(err)
		}
		if tr.Seq <= seq {
			break
		}
		found = append(found, tr)
	}
	slices.Reverse(found)
	return found
}

// killFirst kills the first process of a sandbox from outside.
func killFirst(t *testing.T, c *client.Client, name string) {
	t.Helper()
	got, err := c.Sandboxes.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	paths, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, path := range paths {
		cgroup, _ := os.ReadFile(path)
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && strings.Contains(string(cgroup), got.ID) && string(command) == "berth-guest\x00" {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("%s has no process", name)
}
