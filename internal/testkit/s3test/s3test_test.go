package s3test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/testkit"
)

func TestServerComesAndGoes(t *testing.T) {
	s := Start(t, Options{})
	b := s.Bucket(t)
	if _, err := os.Stat(s.Dir(b)); err != nil {
		t.Error(err)
	}
	if err := s.healthy(t.Context()); err != nil {
		t.Error(err)
	}
	if want := "s3://" + b.Name + "/a/b?endpoint=" + url.QueryEscape(s.Endpoint) + "&region=us-east-1"; b.URL("a/b") != want {
		t.Errorf("its address is %s, not %s", b.URL("a/b"), want)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(s.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d: %v", s.Pid, err)
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its files: %v", err)
	}
}

func TestServerInAGivenDirectory(t *testing.T) {
	dir := t.TempDir()
	s := Start(t, Options{Dir: dir})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestTestsShareAServer(t *testing.T) {
	Setenv(t)
	a, b := New(t), New(t)
	if a.Endpoint != b.Endpoint || a.Name == b.Name || os.Getenv("AWS_SECRET_ACCESS_KEY") != SecretKey {
		t.Errorf("%+v, %+v", a, b)
	}
}

func TestServerThatCannotStart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if s, err := start(ctx, Options{Dir: t.TempDir(), Args: []string{"--no-such-option"}}); err == nil {
		_ = s.Close()
		t.Error("it started")
	} else if !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("it does not say why: %v", err)
	}
	if _, err := start(ctx, Options{Dir: "/dev/null/x"}); err == nil {
		t.Error("it started nowhere")
	}
}

// asChild makes this test a process that starts a server and is killed.
const asChild = "BERTH_TEST_S3_CHILD"

func TestServerEndsWithItsProcess(t *testing.T) {
	if os.Getenv(asChild) != "" {
		s := Start(t, Options{})
		fmt.Printf("started %d\n", s.Pid)
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerEndsWithItsProcess$")
	cmd.Env = append(os.Environ(), asChild+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscanf(out, "started %d", &pid); err != nil {
		t.Error(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	testkit.Eventually(t, 30*time.Second, func() error {
		if err := syscall.Kill(pid, 0); pid == 0 || !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("process %d: %v", pid, err)
		}
		return nil
	})
}

// TestFaults sees each fault from both sides.
func TestFaults(t *testing.T) {
	heard := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && len(body) == int(r.ContentLength) {
			heard++
		}
		if r.URL.Path == "/object" {
			w.Header().Set("ETag", `"x"`)
		}
		_, _ = io.WriteString(w, strings.Repeat("answer", 1000))
	}))
	defer server.Close()
	p := Proxy(t, server.URL)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(path string) (int, int, error) {
		answer, err := client.Post(p.Endpoint+path, "text/plain", strings.NewReader(strings.Repeat("x", 100_000)))
		if err != nil {
			return 0, 0, err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return answer.StatusCode, len(text), err
	}
	for name, c := range map[string]struct {
		f             Faults
		heard         int
		status, bytes int
		fails         bool
	}{
		"none":      {f: Faults{}, heard: 1, status: 200, bytes: 6000},
		"error":     {f: Faults{Error: 1}, status: 500},
		"deaf":      {f: Faults{Deaf: 1}, fails: true},
		"lost":      {f: Faults{Lost: 1}, heard: 1, fails: true},
		"disowned":  {f: Faults{Disowned: 1}, heard: 1, status: 500},
		"truncated": {f: Faults{Truncated: 1}, heard: 1, fails: true},
		"empty":     {f: Faults{Empty: 1}, heard: 1, status: 200},
		"slow":      {f: Faults{Slow: 1, Delay: time.Millisecond}, heard: 1, status: 200, bytes: 6000},
		"not this":  {f: Faults{Error: 1, Only: func(*http.Request) bool { return false }}, heard: 1, status: 200, bytes: 6000},
	} {
		p.Set(c.f)
		heard = 0
		status, bytes, err := ask("/x")
		if (err != nil) != c.fails || heard != c.heard || !c.fails && (status/100 != c.status/100 || bytes != c.bytes) {
			t.Errorf("%s: the server heard %d; answered %d with %d bytes, %v", name, heard, status, bytes, err)
		}
		if hits, total := p.Hits(); total == 0 || c.f.Only == nil && name != "none" && hits[name] != 1 {
			t.Errorf("%s: %v of %d", name, hits, total)
		}
	}
	server.Close()
	p.Set(Faults{})
	if status, _, _ := ask("/x"); status != http.StatusBadGateway {
		t.Errorf("without a server: %d", status)
	}
}
