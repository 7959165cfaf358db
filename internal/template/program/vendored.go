package program

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/berthdev/berth/api"
)

// findVendored finds the program on this machine and sets the version to that of its directory, or to the one in
// Options. The installers of vendors put each version into a directory and link the command to the newest.
func (o *Options) findVendored() error {
	found, err := exec.LookPath(o.Command)
	if err != nil {
		home, _ := os.UserHomeDir()
		found = filepath.Join(home, ".local", "bin", o.Command)
	}
	real, err := filepath.EvalSymlinks(found)
	if err != nil {
		return o.failed(api.CodeUnsupported, o.Vendor, "%s is not installed on this machine", o.Title)
	}
	dir := filepath.Dir(real)
	if o.Version != "" {
		dir = filepath.Join(filepath.Dir(dir), o.Version)
	}
	o.Version, o.vendored = filepath.Base(dir), filepath.Join(dir, filepath.Base(real))
	if _, err := os.Stat(o.vendored); err != nil || !versionShape.MatchString(o.Version) {
		return o.failed(api.CodeUnknownVersion, "Leave --version out to take the newest that is installed.", "there is no version %s of %s in %s", o.Version, o.Title, filepath.Dir(dir))
	}
	return nil
}

// copyVendored copies the program's directory.
func (o *Options) copyVendored(ctx context.Context, dir string) error {
	from := filepath.Dir(o.vendored)
	o.Progress("Copying "+from, 0)
	if out, err := exec.CommandContext(ctx, "cp", "-a", from, filepath.Join(dir, "program")).CombinedOutput(); err != nil {
		return o.failed(api.CodeUnsupported, "Correct what the message names, then try again.", "copy %s: %w: %.200s", from, err, out)
	}
	return os.Symlink(filepath.Join("program", filepath.Base(o.vendored)), filepath.Join(dir, o.Command))
}
