package base

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The name and id of the user that runs processes in sandboxes.
const (
	agentName = "agent"
	agentID   = 1000
)

// finish makes a new system usable for sandboxes: it adds the user agent and removes traces of the host.
func finish(dir string) error {
	for _, step := range []func(string) error{addAgent, forgetHost, dropCaches} {
		if err := step(dir); err != nil {
			return err
		}
	}
	return nil
}

// addAgent adds the user agent to passwd, group and shadow. It edits the files because a base need not have useradd.
func addAgent(dir string) error {
	for _, f := range []struct {
		file, line string
		mode       os.FileMode
	}{
		{"passwd", fmt.Sprintf("%s:x:%d:%d::/home/%[1]s:/bin/bash", agentName, agentID, agentID), 0o644},
		{"group", fmt.Sprintf("%s:x:%d:", agentName, agentID), 0o644},
		{"shadow", agentName + ":!:19000:0:99999:7:::", 0o640},
	} {
		if err := addLine(filepath.Join(dir, "etc", f.file), f.line, f.mode); err != nil {
			return err
		}
	}
	for _, home := range []string{"home/agent", "workspace"} {
		path := filepath.Join(dir, home)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if err := os.Lchown(path, agentID, agentID); err != nil {
			return err
		}
	}
	return nil
}

// addLine adds a line to a file like passwd, unless the file has an entry with the same name.
func addLine(path, line string, mode os.FileMode) error {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	name, _, _ := strings.Cut(line, ":")
	for old := range strings.Lines(string(text)) {
		if strings.HasPrefix(old, name+":") {
			return nil
		}
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	return os.WriteFile(path, append(text, line+"\n"...), mode)
}

// forgetHost replaces the files that debootstrap copied from the host. It empties machine-id, so that each sandbox can
// have a different one.
func forgetHost(dir string) error {
	for file, text := range map[string]string{
		"etc/hostname":    "sandbox\n",
		"etc/hosts":       "127.0.0.1 localhost sandbox\n::1 localhost\n",
		"etc/resolv.conf": "# Names are resolved by the proxy that HTTP_PROXY names.\n",
		"etc/machine-id":  "",
	} {
		path := filepath.Join(dir, file)
		// The old file is removed first: it may be a link to a file outside the base.
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// dropCaches removes files that only the build needed.
func dropCaches(dir string) error {
	for _, pattern := range []string{"var/cache/apt/archives/*.deb", "var/log/bootstrap.log", "var/log/dpkg.log", "var/cache/apt/*.bin", "debootstrap"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}
