package app_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/browsertest"
)

// Real development servers in real sandboxes, in a real browser, and a hostile page beside them. The script drive.mjs has
// the checks. It runs alone, because the development servers compile for most of the time that a preview waits for them.
func TestPreviewsInABrowser(t *testing.T) {
	testkit.Proves(t, "E4")
	web := browsertest.Web(t)
	a := newArena(t, "[templates.web]\nprofile = \"full\"\nmounts = [{source = \""+filepath.Join(web, "node_modules")+"\", target = \"/opt/web/node_modules\"}]\n")
	startVite := api.Command{"sh", "-c", "cd vite && exec node /opt/web/node_modules/vite/bin/vite.js --port 5173 --host 127.0.0.1 --strictPort"}
	for _, name := range []string{"vite", "next", "hostile"} {
		a.box(name, "web")
		a.bring(name)
	}
	vite := a.spawn("vite", api.Exec{Command: startVite})
	next := a.spawn("next", api.Exec{Command: api.Command{"sh", "-c", "cd next && exec node /opt/web/node_modules/next/dist/bin/next dev -p 3000 -H 127.0.0.1"}, Env: map[string]string{"NEXT_TELEMETRY_DISABLED": "1"}})
	hostile := a.spawn("hostile", api.Exec{Command: api.Command{"node", "hostile/server.mjs"}})
	a.await(hostile, "listening")
	a.await(vite, "ready in")
	a.await(next, "Ready in")
	browsertest.Run(t, filepath.Join("testdata", "previews", "drive.mjs"), map[string]any{
		"server": a.server.url, "key": testKey, "vite": "vite", "next": "next", "hostile": "hostile", "startVite": startVite,
	})
}

// bring copies a program of the test into the sandbox of the same name.
func (a *arena) bring(name string) {
	a.Helper()
	root := filepath.Join("testdata", "previews")
	err := filepath.WalkDir(filepath.Join(root, name), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		to, err := filepath.Rel(root, path)
		if err == nil {
			_, _, err = a.Sandboxes.WriteFile(a.Context(), name, "", to, f, client.WriteOptions{})
		}
		return err
	})
	if err != nil {
		a.Fatal(err)
	}
	a.sh(name, "agent", "mkdir "+name+"/node_modules && ln -s /opt/web/node_modules/* "+name+"/node_modules")
}
