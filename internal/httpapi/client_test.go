package httpapi

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	berth "github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/preview"
)

// The Go client and the server agree on everything that a handler alone, or a stub of it, would not show.
func TestClientAndServerAgree(t *testing.T) {
	w := newWorkshop(t)
	c, err := berth.New(w.server.URL, w.write)
	if err != nil {
		t.Fatal(err)
	}
	ctx, boxes := t.Context(), c.Sandboxes
	got, err := boxes.Exec(ctx, "box", api.Exec{Command: api.Command{"sh", "-c", "cat; exit 3"}, Stdin: "in"})
	if err != nil || got.Stdout != "in" || got.ExitCode != 3 {
		t.Errorf("exec: %+v, %v", got, err)
	}

	s, err := boxes.ExecStream(ctx, "box", api.Exec{Command: api.Shell("read x; echo got $x"), OpenStdin: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := boxes.WriteStdin(ctx, "box", s.ExecID, []byte("it\n")); err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	if exit, err := s.Copy(&out, nil); err != nil || exit.ExitCode != 0 || out.String() != "got it\n" {
		t.Errorf("stream: %q, %+v, %v", out.String(), exit, err)
	}
	again, err := boxes.Attach(ctx, "box", s.ExecID, 4)
	if err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if exit, err := again.Copy(&out, nil); err != nil || exit.ExitCode != 0 || out.String() != "it\n" {
		t.Errorf("attach: %q, %+v, %v", out.String(), exit, err)
	}

	term, err := boxes.Terminal(ctx, "box", berth.TerminalOptions{
		Size: api.TermSize{Cols: 100, Rows: 30}, Exec: api.Exec{Command: api.Shell("stty size; echo $A; read x"), Env: map[string]string{"A": "b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	if _, err := io.WriteString(term, "done\n"); err != nil {
		t.Error(err)
	}
	shown, err := io.ReadAll(term)
	if exit, _ := term.Wait(); err != nil || exit.ExitCode != 0 || !strings.Contains(string(shown), "30 100\r\n") || !strings.Contains(string(shown), "b\r\n") {
		t.Errorf("terminal: %q, %+v, %v", shown, exit, err)
	}

	at := w.listening(func(out http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(out, r.RequestURI) })
	res, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://x/page?q=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(at, "/ports/")
	number, err := preview.ParsePort(port)
	if err != nil {
		t.Fatal(err)
	}
	inside, err := boxes.Port("box", number)
	if err != nil {
		t.Fatal(err)
	}
	page, err := inside.Do(res)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	if text, _ := io.ReadAll(page.Body); string(text) != "/page?q=1" {
		t.Errorf("port: %q", text)
	}
	if s, err := boxes.Stop(ctx, "box"); err != nil || s.State != "stopped" {
		t.Errorf("stop: %+v, %v", s, err)
	}
}
