package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// A sender that sends a byte now and then is not waited for either, nor is one to a port of a sandbox.
func TestTrickledUploadIsGivenUp(t *testing.T) {
	testkit.Proves(t, "E6")
	f := newFileSite(t, func(o *Options) { o.TransferTimeout = 500 * time.Millisecond })
	for _, path := range []string{"/files/trickled", "/archive"} {
		trickled(t, f.server.Listener.Addr().String(), f.box+path, f.admin).fails(api.CodeBodyTimeout)
	}
	if entries, err := os.ReadDir(f.work); err != nil || len(entries) != 0 {
		t.Errorf("left %v, %v", entries, err)
	}
	w := newWorkshop(t, func(o *Options) { o.TransferTimeout = 500 * time.Millisecond })
	ended := make(chan error, 1)
	at := w.listening(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		ended <- err
	})
	trickled(t, w.server.Listener.Addr().String(), at+"/", w.admin).fails(api.CodeBodyTimeout)
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the sandbox saw a whole body")
		}
	case <-time.After(patience):
		t.Error("the sandbox still waits for the body")
	}
}

// An answer of a port may take longer than a body may stand still, and one that comes before the body ends the upload.
func TestAnswersOfPortsMayTakeTheirTime(t *testing.T) {
	testkit.Proves(t, "E6")
	w := newWorkshop(t, func(o *Options) { o.TransferTimeout = 100 * time.Millisecond })
	at := w.listening(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			_, _ = io.Copy(io.Discard, r.Body)
			<-time.After(5 * w.TransferTimeout)
		}
		fmt.Fprint(out, "answered")
	})
	ask := call{method: http.MethodPut, path: at + "/slow", key: w.write, body: "short", header: map[string]string{"Content-Type": "text/plain"}}
	if a := w.do(ask).is(http.StatusOK); string(a.body) != "answered" {
		t.Errorf("a slow answer: %q", a.body)
	}
	if a := trickled(t, w.server.Listener.Addr().String(), at+"/early", w.admin).is(http.StatusOK); string(a.body) != "answered" {
		t.Errorf("an early answer: %q", a.body)
	}
}

// trickled sends a request whose body has a byte every 20 ms, until there is an answer.
func trickled(t *testing.T, address, path, key string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(3 * patience))
	fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nContent-Length: 100000\r\n\r\n", path, key)
	trickle := time.NewTicker(20 * time.Millisecond)
	defer trickle.Stop()
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-trickle.C:
				_, _ = conn.Write([]byte("x")) // the answer ends it
			}
		}
	}()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	return answer{t, res.StatusCode, res.Header, body}
}
