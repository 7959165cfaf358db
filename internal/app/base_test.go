package app_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/template/base"
	"github.com/berthdev/berth/internal/testkit"
)

// built is a base made by debootstrap, kept from one run of the tests to the next. The archive may be
// slow or away for a moment.
func built(t *testing.T) string {
	t.Helper()
	kept := filepath.Join(filepath.Dir(filepath.Dir(testkit.Binary(t))), "data")
	if err := os.MkdirAll(kept, 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		var made base.Result
		made, err = base.Build(ctx, base.Options{DataDir: kept, Name: "debian"})
		cancel()
		if err == nil {
			return made.Path
		}
		t.Log(err)
	}
	t.Fatal(err)
	return ""
}

// In a sandbox of a built base, root has what package managers need; the base itself stays as it was.
func TestPackagesAreInstalledInABuiltBase(t *testing.T) {
	testkit.Proves(t, "H6")
	t.Parallel()
	dir := built(t)
	file := filepath.Join(t.TempDir(), "berth.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "[templates.debian]\nbase = %q\nuser = \"root\"\n", dir), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, append(local(t), "BERTH_CONFIG="+file))
	b := make1(t, p.client(t), api.CreateSandbox{Name: "box", Template: "debian"})
	for _, script := range []string{
		`mkdir -p p/DEBIAN p/usr/bin && printf 'Package: hello-berth\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.com>\nDescription: x\n' > p/DEBIAN/control`,
		`printf '#!/bin/sh\necho hello from a package\n' > p/usr/bin/hello-berth && chmod 755 p/usr/bin/hello-berth`,
		`printf '#!/bin/sh\nadduser --system --group greeter >/dev/null 2>&1 || useradd -r greeter; chown greeter /usr/bin/hello-berth\n' > p/DEBIAN/postinst && chmod 755 p/DEBIAN/postinst`,
		`dpkg-deb -b p hello.deb`,
		`apt-get install -y --no-install-recommends ./hello.deb`,
		`dpkg -s hello-berth`,
		`dpkg -r hello-berth && dpkg -i hello.deb`,
		`echo "x:x:1234:1234::/:/bin/sh" >> /etc/passwd && chown 1234:1234 /usr/bin/hello-berth`,
	} {
		if res := b.sh(script); res.ExitCode != 0 {
			t.Fatalf("%s: exit %d\n%s%s", script, res.ExitCode, res.Stdout, res.Stderr)
		}
	}
	b.says("hello-berth; stat -c %u /usr/bin/hello-berth", "hello from a package\n1234\n")
	if _, err := b.c.Sandboxes.Restart(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	b.says("hello-berth", "hello from a package\n")
	other := make1(t, b.c, api.CreateSandbox{Name: "other", Template: "debian"})
	other.says("hello-berth 2>/dev/null || echo none", "none\n")
	if _, err := os.Stat(filepath.Join(dir, "usr/bin/hello-berth")); err == nil {
		t.Error("the base was changed")
	}
}
