package remote

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/cli/ui"
)

func newRemote() *Remote {
	return New(ui.New(strings.NewReader(""), io.Discard, io.Discard, func(string) (string, bool) { return "", false }), "", nil)
}

// TestLocalKeyStaysHere proves that the admin key of this machine's server goes to no other machine.
func TestLocalKeyStaysHere(t *testing.T) {
	dir := t.TempDir()
	const testKey = "berth_test"
	if err := os.WriteFile(filepath.Join(dir, "admin.key"), []byte(testKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for server, want := range map[string]string{
		"http://127.0.0.1:7070": testKey, "http://localhost:7070": testKey, "http://[::1]:7070": testKey, "http://LOCALHOST": testKey,
		"http://192.0.2.1:7070": "", "http://berth.example.com": "", "http://127.0.0.1.example.com": "", "http://%zz": "",
	} {
		r := newRemote()
		r.DataDir = dir
		found, err := r.findKey(server)
		if err != nil || found.key != want || (found.noKeyReason == "") != (want != "") || (found.check == nil) != (want == "") {
			t.Errorf("findKey(%q) = %+v, %v; want %q, to be checked", server, found, err, want)
		}
	}
}
