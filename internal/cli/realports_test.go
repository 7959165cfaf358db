package cli

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// twoPorts answers HTTP on port 8000 and, on port 9000, says a line back.
const twoPorts = `
import socket, threading, http.server
def lines():
    s = socket.create_server(("127.0.0.1", 9000))
    while True:
        c, _ = s.accept()
        c.sendall(b"you said " + c.makefile("rb").readline()); c.close()
threading.Thread(target=lines, daemon=True).start()
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"hello from " + self.path.encode())
http.server.HTTPServer(("127.0.0.1", 8000), H).serve_forever()
`

// Ports as docs/how-to/previews.md shows them, with a real program.
func TestPortsOnARealMachine(t *testing.T) {
	testkit.Proves(t, "E4")
	real := newReal(t)
	s := real.shell()
	s.ok("create", "web")
	s.ok("exec", "-d", "web", "--", "python3", "-c", twoPorts)
	testkit.Eventually(t, time.Minute, func() error {
		if out := s.berth("ports", "web").out; !strings.Contains(out, "8000") || !strings.Contains(out, "9000") {
			return fmt.Errorf("it does not listen: %s", out)
		}
		return nil
	})
	address := strings.TrimSpace(s.ok("open", "web", "8000", "--path", "/page?x=1", "--expires", "10m"))
	jar, _ := cookiejar.New(nil)
	browser := http.Client{Jar: jar, Transport: &http.Transport{Dial: func(network, _ string) (net.Conn, error) { return net.Dial(network, real.addr) }}}
	get := func(address string) (int, string) {
		t.Helper()
		res, err := browser.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	if status, body := get(address); status != 200 || body != "hello from /page?x=1" {
		t.Errorf("%s: %d, %s", address, status, body)
	}
	made := decode[api.PortURL](t, s.ok("open", "web", "8000", "--json"))
	if status, body := get(made.Origin + "/other"); status != 200 || body != "hello from /other" {
		t.Errorf("with the cookie: %d, %s", status, body)
	}
	s.ok("open", "web", "8000", "--revoke")
	for _, address := range []string{address, made.URL, made.Origin + "/other"} {
		if status, body := get(address); status != 401 || !strings.Contains(body, "revoked") {
			t.Errorf("%s: %d, %s", address, status, body)
		}
	}
	for _, args := range [][]string{{"web", "x"}, {"web", "0"}, {"web", "8000", "--expires", "1ms"}, {"web", "22"}, {"nosuch", "80"}} {
		if r := s.berth(append([]string{"open"}, args...)...); r.code == 0 {
			t.Errorf("open %q: %+v", args, r)
		}
	}
	t.Run("forward", func(t *testing.T) { real.forwards(t) })
}

// forwards runs forward as a process, sends a line through it, and ends it as Ctrl-C does.
func (r *realServer) forwards(t *testing.T) {
	cmd := exec.Command(testkit.Binary(t), "forward", "web", "9000:0", "--server", "http://"+r.addr)
	cmd.Env = []string{"BERTH_API_KEY=" + r.key}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 200)
	n, err := out.Read(first)
	at := regexp.MustCompile(`^(127\.0\.0\.1:\d+) -> port 9000 of web\n`).FindSubmatch(first[:n])
	if at == nil {
		_ = cmd.Process.Kill()
		t.Fatalf("it printed %q, %v", first[:n], err)
	}
	for i := range 3 {
		c, err := net.Dial("tcp", string(at[1]))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "line %d\n", i)
		if got, err := io.ReadAll(c); err != nil || string(got) != fmt.Sprintf("you said line %d\n", i) {
			t.Errorf("%q, %v", got, err)
		}
		_ = c.Close()
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
