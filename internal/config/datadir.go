package config

import (
	"os"
	"path/filepath"
)

// DefaultDataDir returns the default data directory: $XDG_DATA_HOME/berth if that variable holds an absolute path, else
// /var/lib/berth for root and ~/.local/share/berth for other users. It returns the empty string if a user who is not
// root has no HOME.
func DefaultDataDir(env func(string) (string, bool), root bool) string {
	src := Sources{Env: env}
	if dir := src.env("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "berth")
	}
	if root {
		return "/var/lib/berth"
	}
	if home := src.env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "share", "berth")
	}
	return ""
}

func deriveDataDir(src Sources) (string, *badValue) {
	dir := DefaultDataDir(src.Env, os.Geteuid() == 0)
	if dir == "" {
		return "", badValuef("give --data-dir or set BERTH_DATA_DIR", "has no default here, because HOME is not set")
	}
	return dir, nil
}

func deriveFakeDir(c *Config, _ Sources) (string, *badValue) {
	if c.DataDir == "" {
		return "", nil
	}
	return filepath.Join(c.DataDir, "fake"), nil
}
