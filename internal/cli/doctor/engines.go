package doctor

import (
	"context"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berthdev/berth/api"
)

// objectStore checks that a directory is writable. For other stores it reports only the address; engines checks them.
func objectStore(_ context.Context, s Subject) finding {
	given := s.Config.ObjectStore
	switch {
	case given == "none":
		return fine("none: workspaces are not saved")
	case given == "":
		return checkStoreDir(s.Config.DataDir, "a directory in the data directory")
	case filepath.IsAbs(given):
		return checkStoreDir(given, given)
	}
	u, err := url.Parse(given)
	switch {
	case err != nil:
		return fail("write s3://bucket/prefix, file:///path or an absolute path", "it is not a readable URL")
	case u.Scheme == "file":
		return checkStoreDir(u.Path, u.Path)
	}
	return fine("%s://%s%s", u.Scheme, u.Host, u.Path)
}

func checkStoreDir(dir, name string) finding {
	if err := writable(existing(dir)); err != nil {
		return fail("let the user that runs the server write there, or choose another with --object-store (BERTH_OBJECT_STORE)", "%s: %v", name, err)
	}
	return fine("%s, writable", name)
}

// messageStore reports the address of the message store; engines checks it.
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

// drivers checks that the default driver exists, and that the fake driver can write its directory.
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

// engines returns checks of the drivers and the stores. It asks the server of this data directory, and calls
// Probe if that server does not report on the local driver.
func engines(ctx context.Context, s Subject) []api.Check {
	ctx, cancel := context.WithTimeout(ctx, 3*checkTimeout)
	defer cancel()
	var known []api.Check
	if ready, err := ask(ctx, s.Config.Listen, s.Config.TLSCert != ""); err == nil && ready.Status != "" && servesFrom(s) {
		known = slices.DeleteFunc(ready.Checks, leftOut)
	}
	if s.Probe == nil || slices.ContainsFunc(known, func(c api.Check) bool { return c.Name == "driver local" }) {
		return known
	}
	return append(known, s.Probe(ctx, s.Config)...)
}

// leftOut reports whether the report leaves out c, a check of the server. It leaves out checks that are not about
// drivers or stores, and successful checks without details.
func leftOut(c api.Check) bool {
	if c.Name == "object store" || c.Name == "message store" {
		return c.Status == OK // its address is already in the report
	}
	return !strings.HasPrefix(c.Name, "driver ") || c.Status == OK && c.Detail == ""
}
