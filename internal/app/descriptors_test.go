package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
)

const fewFiles = 256

// answered is one answer on a connection of its own.
type answered struct {
	status int
	header http.Header
	close  bool
	body   []byte
}

func (a answered) problem() (p api.Problem) {
	_ = json.Unmarshal(a.body, &p)
	return p
}

// requestOn sends a request on the connection and reads the answer.
func requestOn(conn net.Conn, path string) (answered, error) {
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", path, testKey); err != nil {
		return answered{}, err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return answered{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answered{res.StatusCode, res.Header, res.Close, body}, err
}

// askAnew asks on a new connection.
func (p *process) askAnew(t *testing.T, path string) (answered, error) {
	t.Helper()
	conn := p.dial(t)
	defer conn.Close()
	return requestOn(conn, path)
}

func (p *process) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// crowd is clients that keep their connections open.
type crowd struct {
	*process
	held []net.Conn
}

func (c *crowd) leave() {
	for _, conn := range c.held {
		_ = conn.Close()
	}
}

// join opens a connection, sends a request on it and keeps it open.
func (c *crowd) join(t *testing.T) (answered, error) {
	t.Helper()
	conn := c.dial(t)
	c.held = append(c.held, conn)
	return requestOn(conn, "/api/v1/sandboxes")
}

// fill opens connections until one is refused in clear words. Connections that end make room for others.
func (c *crowd) fill(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		for len(c.held) < 4*fewFiles {
			a, err := c.join(t)
			switch {
			case err != nil:
				return err
			case a.status == http.StatusOK:
				continue
			case a.status != http.StatusServiceUnavailable || a.problem().Code != api.CodeTooManyConns || a.header.Get("Retry-After") == "" || !a.close:
				t.Fatalf("a request beyond the limit is answered %d %v %s", a.status, a.header, a.body)
			}
			return nil
		}
		t.Fatal("there is no limit")
		return nil
	})
}

// wantHealth waits until health, readiness and metrics answer on new connections.
func (p *process) wantHealth(t *testing.T) {
	t.Helper()
	for path, want := range map[string]string{"/healthz": `"ok"`, "/readyz": `"database"`, "/metrics": "berth_"} {
		testkit.Eventually(t, time.Minute, func() error {
			a, err := p.askAnew(t, path)
			if err == nil && (a.status != http.StatusOK || !strings.Contains(string(a.body), want)) {
				err = fmt.Errorf("%s answers %d %s", path, a.status, a.body)
			}
			return err
		})
	}
}

// When clients have taken the server's file descriptors, health checks are still answered, other requests are
// refused in clear words, and all is well once the clients have gone.
func TestHealthAnswersWhenConnectionsRunOut(t *testing.T) {
	testkit.Proves(t, "X4")
	t.Parallel()
	p := startAs(t, exec.Command("prlimit", fmt.Sprintf("--nofile=%d:%d", fewFiles, fewFiles), os.Args[0]), fresh(t))
	crowd := &crowd{process: p}
	defer crowd.leave()
	crowd.fill(t)
	if len(crowd.held) < fewFiles/2 {
		t.Errorf("only %d connections were served", len(crowd.held))
	}
	p.wantHealth(t)
	for range fewFiles / 2 { // more than the reserve, and silent
		crowd.held = append(crowd.held, p.dial(t))
	}
	p.wantHealth(t)
	crowd.fill(t)
	crowd.leave()
	c := p.client(t, client.WithAttempts(1))
	testkit.Eventually(t, time.Minute, func() error {
		_, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "box"})
		return err
	})
	if !strings.Contains(p.logs.String(), "file descriptors run out") {
		t.Error("the log does not say that file descriptors ran out")
	}
}

// Health checks are also answered when something other than connections has taken every descriptor.
func TestHealthAnswersWithoutAFreeDescriptor(t *testing.T) {
	testkit.Proves(t, "X4")
	t.Parallel()
	p := start(t, fresh(t))
	crowd := &crowd{process: p}
	defer crowd.leave()
	// The spare descriptors of the server must have numbers below the limit: connections take the free numbers.
	highest := 0
	testkit.Eventually(t, time.Minute, func() error {
		var free int
		if highest, free = p.descriptors(t); free > 0 {
			for range free {
				crowd.held = append(crowd.held, p.dial(t))
			}
			return fmt.Errorf("%d numbers below %d are free", free, highest)
		}
		return nil
	})
	var before unix.Rlimit
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(highest) + 1, Max: 4096}, &before); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		a, err := p.askAnew(t, "/healthz")
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("/healthz answers %d %s", a.status, a.body)
		}
		if err != nil {
			err = fmt.Errorf("%w; open files below %d: %s", err, highest+1, p.openFiles())
		}
		return err
	})
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 4096, Max: 4096}, nil); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		a, err := p.askAnew(t, "/api/v1/sandboxes")
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("an ordinary request is answered %d %s", a.status, a.body)
		}
		return err
	})
}

// descriptors returns the highest open file descriptor of the process, and how many below it are free.
func (p *process) descriptors(t *testing.T) (highest, free int) {
	t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		n, err := strconv.Atoi(fd.Name())
		if err != nil {
			t.Fatal(err)
		}
		highest = max(highest, n)
	}
	return highest, highest + 1 - len(open)
}

// openFiles lists the open files of the process by number.
func (p *process) openFiles() string {
	dir := fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid)
	var list strings.Builder
	for n := range fewFiles {
		if name, err := os.Readlink(fmt.Sprintf("%s/%d", dir, n)); err == nil {
			fmt.Fprintf(&list, "%d=%s ", n, name)
		}
	}
	return list.String()
}
