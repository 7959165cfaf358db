package app_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
)

// upgrader answers a request with an upgrade and repeats what it reads, or sends without end.
const upgrader = `
	$SIG{CHLD} = "IGNORE"; $SIG{PIPE} = "IGNORE";
	my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1:8080", Listen => 5, ReuseAddr => 1) or die; $| = 1; print "listening\n";
	while (my $c = $l->accept) {
		next if fork;
		sysread($c, my $q, 8192);
		if ($q =~ /^\S+ \/endless/) {
			syswrite($c, "HTTP/1.1 200 OK\r\n\r\n");
			while (syswrite($c, "more\n")) { select(undef, undef, undef, 0.05) }
			exit;
		}
		syswrite($c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
		while (sysread($c, my $b, 4096)) { syswrite($c, $b) }
		exit;
	}`

// hanger opens what can stay open on a server, with a key. Each function sends why it ended.
type hanger struct {
	*testing.T
	url, key, box string
	ends          map[string]chan string
}

// A key that is revoked on one server ends everything that was opened with it, on all of them.
func TestRevokedKeyEndsWhatHangsOnIt(t *testing.T) {
	testkit.Proves(t, "E2")
	t.Parallel()
	database := "DATABASE_URL=" + storetest.Postgres(t)
	const secret = "BERTH_SECRET_KEY=one-secret-for-both-servers"
	servers := []*process{start(t, append(local(t), database, secret)), start(t, append(local(t), database, secret))}
	made, err := servers[0].client(t).Keys.Create(t.Context(), api.CreateKey{Label: "doomed", Scope: api.ScopeWrite})
	if err != nil {
		t.Fatal(err)
	}
	var all []*hanger
	for i, p := range servers {
		h := &hanger{T: t, url: p.url, key: made.Secret, box: fmt.Sprintf("box-%d", i), ends: map[string]chan string{}}
		if _, _, err := p.client(t).Sandboxes.Create(t.Context(), api.CreateSandbox{Name: h.box}); err != nil {
			t.Fatal(err)
		}
		h.openAll()
		all = append(all, h)
	}
	spared, err := servers[1].client(t).Sandboxes.Terminal(t.Context(), "box-1", client.TerminalOptions{Size: api.TermSize{Cols: 80, Rows: 24}})
	if err != nil {
		t.Fatal(err)
	}
	defer spared.Close()
	began := time.Now()
	if err := servers[0].client(t).Keys.Revoke(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	late := time.After(patience)
	reasons := map[string]bool{} // a server under load may be too late to say why
	for _, h := range all {
		for what, end := range h.ends {
			select {
			case why := <-end:
				t.Logf("%s at %s ended after %v: %s", what, h.box, time.Since(began).Round(time.Millisecond), why)
				reasons[what] = reasons[what] || strings.Contains(why, string(api.CodeKeyRevoked))
			case <-late:
				t.Fatalf("%s at %s is still open", what, h.box)
			}
		}
	}
	for _, what := range []string{"terminal", "events", "command", "upload", "MCP stream"} {
		if !reasons[what] {
			t.Errorf("%s ended without a reason", what)
		}
	}
	if _, err := spared.Write([]byte("echo sp''ared\n")); err != nil {
		t.Errorf("a terminal of another key: %v", err)
	}
	for seen := ""; !strings.Contains(seen, "spared"); {
		b := make([]byte, 4096)
		n, err := spared.Read(b)
		if seen += string(b[:n]); err != nil {
			t.Fatalf("a terminal of another key: %q, %v", seen, err)
		}
	}
}

func (h *hanger) openAll() {
	h.listen()
	h.terminal()
	h.stalledTerminal()
	h.events()
	h.stalledEvents()
	h.command()
	h.upload()
	h.upgraded()
	h.download()
	h.mcp()
}

// end returns the channel on which the thing reports its end.
func (h *hanger) end(what string) chan string {
	h.ends[what] = make(chan string, 1)
	return h.ends[what]
}

func (h *hanger) client() *client.Client {
	h.Helper()
	c, err := client.New(h.url, h.key)
	if err != nil {
		h.Fatal(err)
	}
	return c
}

// listen starts what previews reach. It was started by the key as well, and runs on without it.
func (h *hanger) listen() {
	h.Helper()
	stream, err := h.client().Sandboxes.ExecStream(h.Context(), h.box, api.Exec{Command: []string{"perl", "-MIO::Socket::INET", "-e", upgrader}})
	if err != nil {
		h.Fatal(err)
	}
	for seen := ""; !strings.Contains(seen, "listening"); {
		ev, err := stream.Next()
		if err != nil {
			h.Fatal(err)
		}
		seen += string(ev.Data())
	}
	_ = stream.Close()
}

func (h *hanger) terminal() {
	h.Helper()
	term, err := h.client().Sandboxes.Terminal(h.Context(), h.box, client.TerminalOptions{Size: api.TermSize{Cols: 80, Rows: 24}})
	if err != nil {
		h.Fatal(err)
	}
	end := h.end("terminal")
	go func() {
		_, err := io.Copy(io.Discard, term)
		end <- fmt.Sprint(err)
	}()
}

// stalledTerminal does not answer the server's close, and goes on typing.
func (h *hanger) stalledTerminal() {
	h.Helper()
	ws, _, err := websocket.Dial(h.Context(), h.url+"/api/v1/sandboxes/"+h.box+"/terminal", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + h.key}}})
	if err != nil {
		h.Fatal(err)
	}
	end := h.end("stalled terminal")
	go func() {
		defer ws.CloseNow()
		for {
			if err := ws.Write(h.Context(), websocket.MessageBinary, []byte(":\n")); err != nil {
				end <- err.Error()
				return
			}
			<-time.After(20 * time.Millisecond)
		}
	}()
}

func (h *hanger) events() {
	h.Helper()
	stream, err := h.client().Sandboxes.ExecStream(h.Context(), h.box, api.Exec{Command: api.Shell("while :; do echo x; sleep 0.1; done")})
	if err != nil {
		h.Fatal(err)
	}
	end := h.end("events")
	go func() {
		for {
			ev, err := stream.Next()
			if err != nil {
				end <- err.Error()
				return
			}
			if ev.Type == api.EventError {
				end <- string(ev.Error.Code)
				return
			}
		}
	}()
}

// dial sends a request on a connection of its own.
func (h *hanger) dial(head, body string) net.Conn {
	h.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { conn.Close() })
	method, rest, _ := strings.Cut(head, " ")
	path, further, _ := strings.Cut(rest, "\r\n")
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%s\r\n%s", method, path, h.key, further, body); err != nil {
		h.Fatal(err)
	}
	return conn
}

// rest reads a connection to its end.
func rest(conn net.Conn) string {
	text, err := io.ReadAll(conn)
	return fmt.Sprintf("%q, %v", text[max(0, len(text)-400):], err)
}

// stalledEvents takes nothing of a flood until the server has given up.
func (h *hanger) stalledEvents() {
	h.Helper()
	body := `{"command":"yes"}`
	conn := h.dial("POST /api/v1/sandboxes/"+h.box+"/exec\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\n"+fmt.Sprintf("Content-Length: %d\r\n", len(body)), body)
	end := h.end("stalled events")
	go func() {
		// The server closes a connection with unread data: writes to it fail then.
		for {
			if _, err := conn.Write([]byte("x")); err != nil {
				end <- err.Error()
				return
			}
			<-time.After(20 * time.Millisecond)
		}
	}()
}

func (h *hanger) command() {
	h.Helper()
	end := h.end("command")
	go func() {
		_, err := h.client().Sandboxes.Exec(h.Context(), h.box, api.Exec{Command: api.Shell("sleep 300"), TimeoutSeconds: 300})
		end <- fmt.Sprint(err)
	}()
}

func (h *hanger) upload() {
	h.Helper()
	conn := h.dial("PUT /api/v1/sandboxes/"+h.box+"/files/half\r\nContent-Length: 1000000\r\n", strings.Repeat("x", 1000))
	end := h.end("upload")
	go func() { end <- rest(conn) }()
}

func (h *hanger) upgraded() {
	h.Helper()
	conn := h.dial("GET /api/v1/sandboxes/"+h.box+"/ports/8080/\r\nConnection: Upgrade\r\nUpgrade: echo\r\n", "")
	in := bufio.NewReader(conn)
	if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		h.Fatalf("%v, %v", res, err)
	}
	end := h.end("preview upgrade")
	go func() {
		for b := make([]byte, 4); ; {
			if _, err := conn.Write([]byte("echo")); err != nil {
				end <- err.Error()
				return
			}
			if _, err := io.ReadFull(in, b); err != nil {
				end <- err.Error()
				return
			}
		}
	}()
}

func (h *hanger) download() {
	h.Helper()
	conn := h.dial("GET /api/v1/sandboxes/"+h.box+"/ports/8080/endless\r\n", "")
	end := h.end("preview download")
	go func() { end <- rest(conn) }()
}

// mcp calls a tool that reports its progress.
func (h *hanger) mcp() {
	h.Helper()
	const message = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash","arguments":{"command":"sleep 300"},"_meta":{"progressToken":1}}}`
	ctx, cancel := context.WithCancel(h.Context())
	h.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+"/api/v1/projects/"+h.box+"/mcp", bytes.NewReader([]byte(message)))
	if err != nil {
		h.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + h.key, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"} {
		r.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		h.Fatal(err)
	}
	end := h.end("MCP stream")
	go func() {
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		end <- fmt.Sprintf("%s, %v", text, err)
	}()
}
