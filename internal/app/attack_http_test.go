package app_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// Ports that are none, or not for others, are refused before anything is dialled.
func TestPortsThatAreNoneAreRefused(t *testing.T) {
	testkit.Proves(t, "E3")
	t.Parallel()
	const secret = "canary-behind-a-port"
	a := newArena(t, "")
	a.box("box", "")
	host := tell(t, "tcp4", "127.0.0.1:0", "HTTP/1.0 200 OK\r\n\r\n"+secret).(*net.TCPAddr)
	for port, want := range map[string]int{
		"22": 403, "2375": 403, "2376": 403, "3128": 403, "0": 400, "70000": 400, "65536": 400, "-1": 400, "+80": 400, "080": 400, "0x50": 400, "80.0": 400,
		"3000@evil.test": 400, "3000%40evil.test": 400, "80:80": 400, "%20": 400, "http": 400, "127.0.0.1:80": 400, "٣": 400,
		fmt.Sprint(host.Port): 502, // where something listens on the host, and nothing in the sandbox
	} {
		if status, body := a.fetch(http.MethodGet, "/api/v1/sandboxes/box/ports/"+port+"/", nil); status != want || strings.Contains(body, secret) {
			t.Errorf("%s: %d %s", port, status, body)
		}
	}
	// The same request gets through to what does listen inside, so it was the port that was wrong.
	a.await(a.spawn("box", api.Exec{Command: []string{"perl", "-MIO::Socket::INET", "-e", `
		my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1:8080", Listen => 5, ReuseAddr => 1) or die; $| = 1; print "listening\n";
		while (my $c = $l->accept) { sysread($c, my $q, 4096); syswrite($c, "HTTP/1.0 200 OK\r\n\r\n$q"); close $c }`}}), "listening")
	status, body := a.fetch(http.MethodGet, "/api/v1/sandboxes/box/ports/8080/x", nil, "Cookie", "berth_session=1; own=2", "X-API-Key", testKey)
	if status != http.StatusOK || strings.Contains(body, testKey) || strings.Contains(body, "berth_session") || !strings.Contains(body, "own=2") {
		t.Errorf("%d %s", status, body)
	}
}

// Output that imitates the protocol of the stream is output: the events are those of the server alone.
func TestOutputCannotForgeEvents(t *testing.T) {
	t.Parallel()
	a := newArena(t, "")
	a.box("box", "")
	forged := "\n\nevent: exit\ndata: {\"type\":\"exit\",\"exit_code\":0}\n\n: comment\r\rid: 99\rretry: 1\r\ndata: x\u2028\u2029\u0085\ndata: {\"type\":\"error\"}\n\n\x00\xff\xfe"
	// As a plain stream those bytes are events to any reader: that is what makes them dangerous.
	if n := len(readEvents(strings.NewReader("data: own\n\n" + forged))); n < 3 {
		t.Fatalf("a naive stream has %d events, so this proves nothing", n)
	}
	body, err := json.Marshal(api.Exec{ExecID: "forger", Command: []string{"printf", "%b", strings.NewReplacer("\\", `\\`, "\x00", `\0000`, "\xff", `\0377`, "\xfe", `\0376`).Replace(forged)}})
	if err != nil {
		t.Fatal(err)
	}
	status, stream := a.fetch(http.MethodPost, "/api/v1/sandboxes/box/exec", bytes.NewReader(body), "Content-Type", "application/json", "Accept", "text/event-stream")
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, stream)
	}
	var out []byte
	exits := 0
	for _, data := range readEvents(strings.NewReader(stream)) {
		var ev api.ExecEvent
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		switch ev.Type {
		case api.EventStdout:
			out = append(out, ev.Data()...)
		case api.EventExit:
			exits++
		case api.EventError:
			t.Errorf("forged: %q", data)
		}
	}
	if string(out) != forged || exits != 1 {
		t.Errorf("%q arrived, with %d exits", out, exits)
	}
}

// readEvents reads the data of a stream's events as a browser does, where any of the three line ends is
// one.
func readEvents(r io.Reader) (events []string) {
	text, _ := io.ReadAll(r)
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(text)), "\n")
	var data []string
	for _, line := range lines {
		if value, ok := strings.CutPrefix(line, "data:"); ok {
			data = append(data, strings.TrimPrefix(value, " "))
		}
		if line == "" && data != nil {
			events, data = append(events, strings.Join(data, "\n")), nil
		}
	}
	return events
}

// Bodies and headers that are too much are refused when that is known, not when they have come.
func TestBodiesThatAreTooMuchAreRefusedEarly(t *testing.T) {
	testkit.Proves(t, "E6")
	t.Parallel()
	a := newArena(t, "")
	a.box("box", "")
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	_, _ = zip.Write([]byte(`{"name":"` + strings.Repeat("a", 50<<20)))
	_ = zip.Close()
	const create, exec, file = "/api/v1/sandboxes", "/api/v1/sandboxes/box/exec", files + "big"
	for name, c := range map[string]struct {
		path, method string
		head         string // further headers
		body         io.Reader
		want         []string
	}{
		"a gibibyte":           {create, "POST", "Content-Type: application/json\r\nContent-Length: 1073741824", nil, []string{"413"}},
		"a gibibyte of exec":   {exec, "POST", "Content-Type: application/json\r\nContent-Length: 1073741824", nil, []string{"413"}},
		"a large file":         {file, "PUT", "Content-Length: 1073741825", nil, []string{"413"}},
		"an endless body":      {create, "POST", "Content-Type: application/json\r\nTransfer-Encoding: chunked", endless(), []string{"413"}},
		"a deep body":          {create, "POST", "Content-Type: application/json\r\nContent-Length: 200000", strings.NewReader(strings.Repeat("[", 200000)), []string{"400", "413", "422"}},
		"a packed body":        {create, "POST", fmt.Sprintf("Content-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: %d", bomb.Len()), &bomb, []string{"400", "415"}},
		"a hundred KiB header": {create, "GET", "X-Large: " + strings.Repeat("a", 100<<10), nil, []string{"431"}},
		"a negative length":    {create, "POST", "Content-Length: -1", nil, []string{"400"}},
		"two lengths":          {create, "POST", "Content-Length: 5\r\nContent-Length: 6", nil, []string{"400"}},
	} {
		if status := a.raw(c.method, c.path, c.head, c.body); !oneOf(status, c.want) {
			t.Errorf("%s: %s, want %v", name, status, c.want)
		}
	}
	a.works("box", 1)
}

func oneOf(s string, list []string) bool {
	for _, item := range list {
		if s == item {
			return true
		}
	}
	return false
}

// endless is a body that says of itself that more will come.
func endless() io.Reader {
	chunk := "10000\r\n" + strings.Repeat(" ", 0x10000) + "\r\n"
	return strings.NewReader(strings.Repeat(chunk, 1000))
}

// raw sends a request as bytes, its body as far as the server takes it, and returns the status of the
// answer.
func (a *arena) raw(method, path, head string, body io.Reader) (status string) {
	a.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(a.server.url, "http://"))
	if err != nil {
		a.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	go func() {
		_, _ = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n", method, path, conn.RemoteAddr(), testKey, head)
		if body != nil {
			_, _ = io.Copy(conn, body)
		}
	}()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		a.Errorf("%s %s with %.60q: %q, %v", method, path, head, line, err)
	}
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return ""
	}
	return fields[1]
}
