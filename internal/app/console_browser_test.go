package app_test

import (
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/browsertest"
	"github.com/berthdev/berth/web"
)

// The console in a real browser: a person signs in, talks with an agent, reads the file that it wrote and sees what it
// cost. With BERTH_SHOTS set to a directory, the script leaves pictures of the pages there. The server is killed under the open page, and hostile names and answers stay text. The script drive.mjs has the
// checks. The pages come from web/dist, which "make console" builds.
func TestConsoleInABrowser(t *testing.T) {
	testkit.Proves(t, "X6")
	if _, err := fs.Stat(web.Files(), "index.html"); err != nil {
		t.Fatal("the pages are not built: make console does that")
	}
	env := append(local(t), "BERTH_LISTEN="+freeAddress(t))
	p := start(t, env)
	read, err := p.client(t).Keys.Create(t.Context(), api.CreateKey{Label: "reader", Scope: api.ScopeRead})
	if err != nil {
		t.Fatal(err)
	}
	crash := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p = start(t, env)
	}))
	defer crash.Close()
	browsertest.Run(t, filepath.Join("testdata", "console", "drive.mjs"), map[string]any{
		"server": p.url, "key": testKey, "reader": read.Secret, "crash": crash.URL, "shots": os.Getenv("BERTH_SHOTS"),
	})
}

// freeAddress is an address that a server can listen on again after it was killed.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
