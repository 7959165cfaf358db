package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/local"
)

// useLocal configures the servers with the local driver and the given templates. The sandboxes end with the fleet.
func (f *Fleet) useLocal(templates string) {
	file := filepath.Join(f.Dir, "berth.toml")
	if err := os.WriteFile(file, []byte(templates), 0o600); err != nil {
		f.t.Fatal(err)
	}
	f.settings = append(f.settings, "BERTH_DEFAULT_DRIVER=local", "BERTH_CONFIG="+file)
	f.t.Cleanup(func() { // runs after the servers have ended
		var dirs []string
		for i := range f.replicas {
			dirs = append(dirs, filepath.Join(f.data(i), "local"))
		}
		for _, dir := range slices.Compact(dirs) {
			if err := endSandboxes(dir); err != nil {
				f.t.Error(err)
			}
		}
	})
}

// endSandboxes destroys all instances of the local driver with this directory.
func endSandboxes(dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return nil // no server has started the driver
	}
	ctx := context.Background()
	d, err := local.New(ctx, local.Options{Dir: dir, Tier: local.TierRoot})
	if err != nil {
		return err
	}
	var failed []error
	for st, err := range d.List(ctx, driver.Selector{}) {
		if err == nil {
			err = d.Destroy(ctx, st.ID)
		}
		failed = append(failed, err)
	}
	return errors.Join(append(failed, d.WaitIdle(ctx), d.Close())...)
}

// Fsck runs berth fsck on the fleet's database.
func (f *Fleet) Fsck() (found api.Fsck, err error) {
	cmd := exec.Command(f.exe, "fsck", "--json")
	cmd.Env = f.replicas[0].environ()
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	ran := cmd.Run()
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		return found, fmt.Errorf("berth fsck: %w: %w\n%s%s", ran, err, &out, &words)
	}
	return found, nil
}
