package doctor

import (
	"context"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berthdev/berth/api"
)

// objectStore looks at a directory; what is elsewhere is asked by the server at its start.
func objectStore(_ context.Context, s Subject) finding {
	given := s.Config.ObjectStore
	switch {
	case given == "none":
		return fine("none: workspaces are not saved")
	case given == "":
		return storeDir(s.Config.DataDir, "a directory in the data directory")
	case filepath.IsAbs(given):
		return storeDir(given, given)
	}
	u, err := url.Parse(given)
	switch {
	case err != nil:
		return fail("write s3://bucket/prefix, file:///path or an absolute path", "it is not a readable URL")
	case u.Scheme == "file":
		return storeDir(u.Path, u.Path)
	}
	return fine("%s://%s%s", u.Scheme, u.Host, u.Path)
}

func storeDir(dir, name string) finding {
	if err := writable(existing(dir)); err != nil {
		return fail("let the user that runs the server write there, or choose another with --object-store (BERTH_OBJECT_STORE)", "%s: %v", name, err)
	}
	return fine("%s, writable", name)
}

// messageStore tells where messages are; what is elsewhere is asked by the server at its start.
func messageStore(_ context.Context, s Subject) finding {
	if s.Config.MessageStore == "" {
		return fine("the database")
	}
	u, err := url.Parse(s.Config.MessageStore)
	if err != nil {
		return fail("write dynamodb://table", "it is not a readable URL")
	}
	return fine("%s://%s", u.Scheme, u.Host)
}

// drivers looks at what runs the instances.
func drivers(_ context.Context, s Subject) finding {
	known, chosen := strings.Join(s.Drivers, ", "), s.Config.DefaultDriver
	if !slices.Contains(s.Drivers, chosen) {
		return fail("choose one of them with --default-driver (BERTH_DEFAULT_DRIVER)", "default_driver is %q; this Berth has %s", chosen, known)
	}
	if slices.Contains(s.Drivers, "fake") {
		if err := writable(existing(s.Config.FakeDriverDir)); err != nil {
			return fail("let the user that runs the server write there, or choose another with BERTH_FAKE_DRIVER_DIR", "fake: %v", err)
		}
	}
	return fine("%s; %s is the default", known, chosen)
}

// engines is how each driver does: what the server of this data directory has to say of them, and, where
// that is nothing, how a trial of this machine's own engine ends.
func engines(ctx context.Context, s Subject) []api.Check {
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	var told []api.Check
	if ready, err := ask(ctx, s.Config.Listen); err == nil && ready.Status != "" && servesFrom(s) {
		told = slices.DeleteFunc(ready.Checks, wordless)
	}
	if s.Probe == nil || slices.ContainsFunc(told, func(c api.Check) bool { return c.Name == "driver local" }) {
		return told
	}
	return append(told, s.Probe(ctx, s.Config)...)
}

// wordless is a check of something else, or one that says no more than that all is well.
func wordless(c api.Check) bool {
	if c.Name == "object store" {
		return c.Status == OK // its address was told
	}
	return !strings.HasPrefix(c.Name, "driver ") || c.Status == OK && c.Detail == ""
}
