package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

func TestLifecycleCalls(t *testing.T) {
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.RequestURI())
		answer(w, http.StatusOK, api.Sandbox{ID: "1", State: "running"})
	})
	start := func(ctx context.Context, ref string) (api.Sandbox, error) { return c.Sandboxes.Start(ctx, ref) }
	restart := func(ctx context.Context, ref string) (api.Sandbox, error) {
		return c.Sandboxes.Restart(ctx, ref, client.AllowMassDelete())
	}
	for _, do := range []func(context.Context, string) (api.Sandbox, error){
		start, c.Sandboxes.Stop, restart, c.Sandboxes.Freeze, c.Sandboxes.Thaw,
	} {
		if s, err := do(t.Context(), "box"); err != nil || s.ID != "1" {
			t.Errorf("%+v, %v", s, err)
		}
	}
	at := "POST /api/v1/sandboxes/box/"
	if got := strings.Join(asked, "\n"); got != at+"start\n"+at+"stop\n"+at+"restart?allow_mass_delete=true\n"+at+"freeze\n"+at+"thaw" {
		t.Errorf("asked for\n%s", got)
	}
}

func TestExecIsSentAgainUnderTheSameKey(t *testing.T) {
	var keys []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if len(keys) == 1 {
			panic(http.ErrAbortHandler)
		}
		var want api.Exec
		if err := json.NewDecoder(r.Body).Decode(&want); err != nil || want.Command[2] != "echo hi" {
			t.Errorf("%+v, %v", want, err)
		}
		answer(w, http.StatusOK, api.ExecResult{ExecExit: api.ExecExit{ExitCode: 3}, Stdout: "hi\n", StderrBase64: []byte{0xff}})
	})
	got, err := c.Sandboxes.Exec(t.Context(), "box", api.Exec{Command: api.Shell("echo hi")})
	stdout, stderr := got.Output()
	if err != nil || got.ExitCode != 3 || string(stdout) != "hi\n" || string(stderr) != "\xff" {
		t.Errorf("%+v, %v", got, err)
	}
	if len(keys) != 2 || keys[0] != keys[1] || keys[0] == "" {
		t.Errorf("keys %q", keys)
	}
}

// The client's own time bounds a call, not the command.
func TestExecHasTheCommandsTime(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		<-time.After(300 * time.Millisecond)
		answer(w, http.StatusOK, api.ExecResult{})
	}, client.WithTimeout(100*time.Millisecond), client.WithAttempts(1))
	if _, err := c.Sandboxes.Exec(t.Context(), "box", api.Exec{Command: api.Shell("x"), TimeoutSeconds: 60}); err != nil {
		t.Errorf("a command that may run for a minute: %v", err)
	}
	if _, err := c.Sandboxes.Exec(t.Context(), "box", api.Exec{Command: api.Shell("x")}); err != nil {
		t.Errorf("a command that may run as long as the server lets it: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.Sandboxes.Exec(ctx, "box", api.Exec{Command: api.Shell("x")}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller's own time: %v", err)
	}
}

func TestExecControls(t *testing.T) {
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body))
		switch {
		case strings.HasSuffix(r.URL.Path, "/exec"):
			answer(w, http.StatusOK, api.List[api.ExecStatus]{Items: []api.ExecStatus{{ExecID: "e", Running: true}}})
		case strings.HasSuffix(r.URL.Path, "/e"):
			answer(w, http.StatusOK, api.ExecStatus{ExecID: "e"})
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	s := c.Sandboxes
	if list, err := s.Execs(t.Context(), "box"); err != nil || len(list) != 1 || !list[0].Running {
		t.Errorf("%+v, %v", list, err)
	}
	if status, err := s.ExecStatus(t.Context(), "box", "e"); err != nil || status.ExecID != "e" {
		t.Errorf("%+v, %v", status, err)
	}
	if err := s.Signal(t.Context(), "box", "e", "INT"); err != nil {
		t.Error(err)
	}
	if err := s.Resize(t.Context(), "box", "e", api.TermSize{Cols: 9, Rows: 8}); err != nil {
		t.Error(err)
	}
	if err := s.CloseStdin(t.Context(), "box", "e"); err != nil {
		t.Error(err)
	}
	at := "/api/v1/sandboxes/box/exec"
	want := []string{"GET " + at + " ", "GET " + at + "/e ", "POST " + at + `/e/signal {"signal":"INT"}`, "POST " + at + `/e/resize {"cols":9,"rows":8}`, "POST " + at + "/e/stdin?close=true "}
	if strings.Join(asked, "\n") != strings.Join(want, "\n") {
		t.Errorf("asked\n%s", strings.Join(asked, "\n"))
	}
	if err := s.Signal(t.Context(), "box", "..", "INT"); err == nil {
		t.Error("a path out of the command was asked for")
	}
}

func TestStdinIsSentUntilItIsTaken(t *testing.T) {
	var taken []byte
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Content-Type") != "application/octet-stream" {
			t.Errorf("content type %q", r.Header.Get("Content-Type"))
		}
		n := min(len(body), 100_000)
		taken = append(taken, body[:n]...)
		answer(w, http.StatusOK, api.ExecWritten{Written: int64(n)})
	})
	data := bytes.Repeat([]byte("0123456789"), 60_000)
	if err := c.Sandboxes.WriteStdin(t.Context(), "box", "e", data); err != nil || !bytes.Equal(taken, data) {
		t.Errorf("%d of %d bytes, %v", len(taken), len(data), err)
	}
}

// event writes one as the server does.
func event(w http.ResponseWriter, text string) {
	fmt.Fprintf(w, ": berth\n\nid: 1\ndata: %s\n\n", text)
	_ = http.NewResponseController(w).Flush()
}

func streaming(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set(api.HeaderExecID, "e")
}

func TestStreamReadsOnAfterALostConnection(t *testing.T) {
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.RequestURI())
		streaming(w)
		switch len(asked) {
		case 1:
			event(w, `{"type":"started","exec_id":"e"}`)
			event(w, `{"type":"stdout","text":"one ","next":4}`)
			panic(http.ErrAbortHandler)
		case 2:
			panic(http.ErrAbortHandler)
		case 3: // a server that drains ends its streams
			event(w, `{"type":"started","exec_id":"e","next":4}`)
			event(w, `{"type":"stderr","base64":"/w==","next":5}`)
		case 4:
			event(w, `{"type":"stdout","text":"two","next":8}`)
			event(w, `{"type":"exit","exit_code":3,"next":8}`)
		}
	})
	s, err := c.Sandboxes.ExecStream(t.Context(), "box", api.Exec{Command: api.Shell("x")})
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	exit, err := s.Copy(&stdout, &stderr)
	if err != nil || stdout.String() != "one two" || stderr.String() != "\xff" || exit.ExitCode != 3 || s.After() != 8 || s.ExecID != "e" {
		t.Errorf("%q, %q, %+v, %v", stdout.String(), stderr.String(), exit, err)
	}
	at := "/api/v1/sandboxes/box/exec"
	if got := strings.Join(asked, ", "); got != "POST "+at+", GET "+at+"/e/stream?after=4, GET "+at+"/e/stream?after=4, GET "+at+"/e/stream?after=5" {
		t.Errorf("asked %s", got)
	}
	if _, err := s.Next(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	if _, err := s.Copy(nil, nil); err == nil {
		t.Error("a stream that was read is copied again")
	}
}

func TestStreamGivesUpOnAServerThatIsGone(t *testing.T) {
	var attached atomic.Int32
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			attached.Add(1)
			panic(http.ErrAbortHandler)
		}
		streaming(w)
		event(w, `{"type":"stdout","text":"x","next":1}`)
	}, client.WithAttempts(2))
	s, err := c.Sandboxes.ExecStream(t.Context(), "box", api.Exec{Command: api.Shell("x")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Copy(nil, nil)
	if p := problemOf(t, err); p.Code != api.CodeServerUnreachable || attached.Load() < 2 || attached.Load() > 4 {
		t.Errorf("%v after %d attempts", err, attached.Load())
	}
}

func TestStreamsThatEndWithAnError(t *testing.T) {
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"told": {func(w http.ResponseWriter, r *http.Request) {
			streaming(w)
			event(w, `{"type":"error","error":{"code":"output_trimmed","detail":"gone"}}`)
		}, "gone (output_trimmed)"},
		"untold":  {func(w http.ResponseWriter, r *http.Request) { streaming(w); event(w, `{"type":"error"}`) }, "without a reason"},
		"no JSON": {func(w http.ResponseWriter, r *http.Request) { streaming(w); event(w, `{`) }, "cannot be read"},
		"large event": {func(w http.ResponseWriter, r *http.Request) {
			streaming(w)
			fmt.Fprint(w, strings.Repeat("data: "+strings.Repeat("x", 50_000)+"\n", 3))
		}, "larger than"},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			streaming(w)
			fmt.Fprint(w, strings.Repeat("x", 200_000))
		}, "longer than"},
		"refused": {func(w http.ResponseWriter, r *http.Request) {
			refuse(w, api.NewProblem(api.CodeOutputTrimmed, "trimmed"))
		}, "trimmed"},
		"no stream": {func(w http.ResponseWriter, r *http.Request) { answer(w, http.StatusOK, "x") }, "no stream"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://evil.test", http.StatusFound)
		}, "not followed"},
	} {
		s, err := serve(t, c.h, client.WithAttempts(1), client.WithMaxAnswer(100_000)).Sandboxes.Attach(t.Context(), "box", "e", 0)
		if err == nil {
			_, err = s.Next()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestStreamEndsWithItsContextOrItsReader(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		streaming(w)
		event(w, `{"type":"started","exec_id":"e"}`)
		event(w, `{"type":"stdout","text":"x","next":1}`)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := c.Sandboxes.Attach(ctx, "box", "e", 0)
	if err != nil {
		t.Fatal(err)
	}
	for event, err := range s.Events() {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			break
		}
		if event.Type == api.EventStdout {
			cancel()
		}
	}
	s, err = c.Sandboxes.Attach(t.Context(), "box", "e", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Next(); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after Close: %v", err)
	}
	s, _ = c.Sandboxes.Attach(t.Context(), "box", "e", 0)
	defer s.Close()
	if _, err := s.Copy(failing{}, nil); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("a writer that fails: %v", err)
	}
	cancelled, stop := context.WithCancel(t.Context())
	stop()
	if _, err := c.Sandboxes.ExecStream(cancelled, "box", api.Exec{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestPortReachesWhatListens(t *testing.T) {
	var got *http.Request
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	})
	at, err := c.Sandboxes.PortURL("box", 3000)
	if err != nil || at.String() != c.Server()+"/api/v1/sandboxes/box/ports/3000/" {
		t.Fatalf("%v, %v", at, err)
	}
	port, err := c.Sandboxes.Port("box", 3000)
	if err != nil {
		t.Fatal(err)
	}
	res, err := port.Get("http://anything/a%2Fb?x=1")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got.RequestURI != "/api/v1/sandboxes/box/ports/3000/a%2Fb?x=1" || got.Header.Get("Authorization") != "Bearer "+key || res.StatusCode != http.StatusFound {
		t.Errorf("%s, %s", got.RequestURI, res.Status)
	}
	if _, err := c.Sandboxes.Port("..", 3000); err == nil {
		t.Error("a path out of sandboxes")
	}
}
