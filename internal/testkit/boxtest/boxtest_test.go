package boxtest

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
)

func TestBox(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("served")) }))
	defer server.Close()
	b := New(t, Options{
		Mounts:   []driver.Mount{{Source: t.TempDir(), Target: "/opt/x"}},
		Services: map[string]string{"127.0.0.1:8000": server.URL},
		Env:      []string{"A=1"},
	})
	for range 2 {
		conn, err := b.Guest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		cmd, err := b.Command(t.Context(), guest.Cmd{Argv: []string{"/bin/sh", "-c", "echo $A $B; ls -d /opt/x"}, Env: []string{"B=2"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Run(t.Context(), cmd, guest.Stdio{Stdout: &out}); err != nil || out.String() != "1 2\n/opt/x\n" {
			t.Errorf("%q, %v", &out, err)
		}
		if err := conn.Start(t.Context(), "p", guest.Cmd{Argv: []string{"true"}}); err != nil && err != guest.ErrExists {
			t.Error(err)
		}
		conn.Close()
		// A stopped one is started by its next use.
		if _, err := b.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for c, err := range b.Output(t.Context(), "p", 0) {
		if err != nil || c.Exit == nil {
			t.Errorf("%+v, %v", c, err)
		}
	}
	fs, err := b.Files(t.Context(), files.WorkingDir)
	if err != nil {
		t.Fatal(err)
	}
	fs.Close()
}
