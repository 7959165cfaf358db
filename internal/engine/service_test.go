package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// housed is a manned driver whose instances have files, each root a directory of its own.
type housed struct {
	*manned
	dir string
}

func (h housed) Files(_ context.Context, id driver.ID, root string) (files.FS, error) {
	path := filepath.Join(h.dir, string(id), root)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return files.NewDir(dir, files.Owner{})
}

func inHouses(t *testing.T) (srv *server, dir string) {
	dir = t.TempDir()
	srv = onSQLite(t).open(t, func(o *engine.Options) {
		m := new(manned)
		withHelpers(m)(o)
		o.Drivers = map[string]driver.Driver{"fake": housed{m, dir}}
	})
	return srv, dir
}

// One call opens a sandbox, new or not, and everything else needs no more than what that call returned.
func TestServiceIsOpenedOnceAndUsed(t *testing.T) {
	testkit.Proves(t, "V1", "V3", "V6")
	srv, dir := inHouses(t)
	id := store.NewID()
	o := engine.Opening{Tenant: "default", SandboxID: id, Account: "acme", Spec: sandbox.Spec{Profile: "lite"}, Actor: "test"}
	v, err := srv.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	info, err := v.Info(t.Context())
	if err != nil || info.ID != id || info.State != sandbox.Running || info.Spec.Profile != "lite" {
		t.Fatalf("%+v, %v", info, err)
	}
	volume, err := v.Volume(t.Context())
	if err != nil || volume != info.Instance {
		t.Errorf("volume %s, %v", volume, err)
	}
	write(t, filepath.Join(dir, string(volume), files.WorkingDir, "src/main.go"), "package main\n")
	write(t, filepath.Join(dir, string(volume), files.HomeDir, ".profile"), "umask 022\n")

	page, err := v.ListFiles(t.Context(), files.WorkingDir, files.ListOptions{Depth: 5})
	if err != nil || len(page.Items) != 2 || page.Items[1].Path != "src/main.go" {
		t.Errorf("%+v, %v", page, err)
	}
	tree, err := v.FileTree(t.Context(), files.WorkingDir, files.TreeOptions{})
	if err != nil || len(tree.Children) != 1 || tree.Children[0].Children[0].Path != "src/main.go" {
		t.Errorf("%+v, %v", tree, err)
	}
	content, err := v.FileContent(t.Context(), files.HomeDir, ".profile")
	if err != nil || string(content) != "umask 022\n" {
		t.Errorf("%q, %v", content, err)
	}
	v.SetConversation("c1")
	if v.Conversation() != "c1" {
		t.Errorf("conversation %q", v.Conversation())
	}

	again, err := srv.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Volume(t.Context()); err != nil || got != volume || again.Conversation() != "" {
		t.Errorf("opened again: volume %s, %v", got, err)
	}
	if err := again.Terminate(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	// The first service knows nothing of that, and its next operation revives the sandbox.
	if page, err := v.ListFiles(t.Context(), files.WorkingDir, files.ListOptions{}); err != nil || len(page.Items) > 0 {
		t.Errorf("%+v, %v", page, err)
	}
	info, err = v.Info(t.Context())
	if err != nil || info.State != sandbox.Running || info.Incarnation != 2 || info.Spec.Profile != "lite" || info.ID != id {
		t.Errorf("revived as %+v, %v", info, err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every failure has the name that callers know it by, and says more than the name.
func TestServiceErrorsHaveNames(t *testing.T) {
	testkit.Proves(t, "V6")
	srv, dir := inHouses(t)
	good := engine.Opening{Tenant: "default", SandboxID: store.NewID(), Account: "acme", Actor: "test"}
	v, err := srv.Open(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	volume, _ := v.Volume(t.Context())
	write(t, filepath.Join(dir, string(volume), files.WorkingDir, "large"), strings.Repeat("x", 10<<20+1))
	open := func(change func(*engine.Opening)) error {
		o := good
		change(&o)
		_, err := srv.Open(t.Context(), o)
		return err
	}
	gone, err := srv.Open(t.Context(), engine.Opening{Tenant: "default", SandboxID: store.NewID(), Account: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	info, _ := gone.Info(t.Context())
	if _, err := srv.Delete(t.Context(), "default", info.ID, "test", true); err != nil {
		t.Fatal(err)
	}
	_, deletedErr := gone.ListFiles(t.Context(), files.WorkingDir, files.ListOptions{})
	_, outsideErr := v.FileContent(t.Context(), files.WorkingDir, "../../etc/passwd")
	_, largeErr := v.FileContent(t.Context(), files.WorkingDir, "large")
	_, missingErr := v.FileContent(t.Context(), files.WorkingDir, "none")
	_, treeErr := v.FileTree(t.Context(), files.WorkingDir, files.TreeOptions{Path: "/../x"})
	for name, c := range map[string]struct {
		err  error
		is   error
		code api.Code
	}{
		"id":       {open(func(o *engine.Opening) { o.SandboxID = "box" }), engine.ErrInvalidSandboxID, api.CodeInvalidID},
		"account":  {open(func(o *engine.Opening) { o.Account = "" }), engine.ErrInvalidAccount, api.CodeInvalidRequest},
		"template": {open(func(o *engine.Opening) { o.Spec.Template = "none such" }), engine.ErrInvalidConfig, api.CodeUnknownTemplate},
		"env":      {open(func(o *engine.Opening) { o.Spec.Env = map[string]string{"": ""} }), engine.ErrInvalidConfig, api.CodeInvalidRequest},
		"create": {open(func(o *engine.Opening) {
			o.SandboxID, o.Spec.Metadata = store.NewID(), map[string]string{"base": "none such"}
		}), engine.ErrSandboxCreationFailed, api.CodeCreateFailed},
		"deleted": {deletedErr, engine.ErrSandboxNotAccessible, api.CodeDeleted},
		"sync":    {v.SyncFiles(t.Context()), engine.ErrSyncFailed, api.CodeUnsupported},
		"outside": {outsideErr, nil, api.CodePathOutside},
		"large":   {largeErr, nil, api.CodeTooLarge},
		"missing": {missingErr, nil, api.CodeFileNotFound},
		"tree":    {treeErr, nil, api.CodePathOutside},
	} {
		if c.is != nil && !errors.Is(c.err, c.is) {
			t.Errorf("%s: %v is not %v", name, c.err, c.is)
		}
		if sandbox.CodeOf(c.err) != c.code {
			t.Errorf("%s: %v has code %s", name, c.err, sandbox.CodeOf(c.err))
		}
	}
}

func TestServiceSyncsFiles(t *testing.T) {
	testkit.Proves(t, "V2")
	srv := onSQLite(t).open(t, func(o *engine.Options) { o.Restorer = restorer{} })
	v, err := srv.Open(t.Context(), engine.Opening{Tenant: "default", SandboxID: store.NewID(), Account: "acme", Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.SyncFiles(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := v.Info(t.Context()); err != nil || info.Synced.Version != "v2" {
		t.Errorf("%+v, %v", info.Synced, err)
	}
}

// A command has each variable once: its own, else the sandbox's, else the template's.
func TestCommandHasEachVariableOnce(t *testing.T) {
	srv := onSQLite(t).open(t)
	h := srv.Handle("default", store.NewID(), "test")
	got := h.Command(sandbox.Sandbox{Spec: sandbox.Spec{Env: map[string]string{"A": "sandbox", "OF_BOTH": "sandbox"}}}, guest.Cmd{Env: []string{"A=first", "A=own", "C=own"}}).Env
	slices.Sort(got)
	if want := []string{"A=own", "C=own", "OF_BOTH=sandbox", "OF_TEMPLATE=template's"}; !slices.Equal(got, want) {
		t.Errorf("the environment is %q", got)
	}
}
