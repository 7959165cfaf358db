package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the command line as processes, against a server of each script's own. Creates of
// that server never end if a script asks for them to hang, and leave a file when they have begun.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			f := &fakeServer{machine: &machine{dir: filepath.Join(env.WorkDir, "box")}, canned: cannedLife(), talks: newTalks()}
			if err := os.Mkdir(f.machine.dir, 0o755); err != nil {
				return err
			}
			env.Defer(f.machine.end)
			arrived := filepath.Join(env.WorkDir, "arrived")
			if _, err := os.Stat(filepath.Join(env.WorkDir, "create.sh")); err == nil {
				f.hold = func(r *http.Request) {
					_ = os.WriteFile(arrived, nil, 0o600)
					<-r.Context().Done()
				}
			}
			env.Defer(f.start())
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_DATA_HOME", env.WorkDir)
			env.Setenv("BERTH_SERVER", f.URL)
			env.Setenv("BERTH_API_KEY", testKey)
			return nil
		},
	})
}
