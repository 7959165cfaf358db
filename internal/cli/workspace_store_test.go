package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/blob/open"
	"github.com/berthdev/berth/internal/testkit"
)

// meter counts the requests to a store, and can ignore their conditions.
type meter struct {
	blob.Store
	puts, gets atomic.Int64
	careless   bool // about conditions
}

func (m *meter) Put(ctx context.Context, key string, r io.Reader, size int64, o blob.PutOptions) (blob.Tag, error) {
	m.puts.Add(1)
	if m.careless {
		o = blob.PutOptions{}
	}
	return m.Store.Put(ctx, key, r, size, o)
}

func (m *meter) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	m.gets.Add(1)
	return m.Store.Get(ctx, key, o)
}

// metered makes the desk's store one that counts.
func (d *desk) metered() *meter {
	m := new(meter)
	d.deps.OpenStore = func(ctx context.Context, address string) (blob.Store, error) {
		var err error
		m.Store, err = open.Store(ctx, address)
		return m, err
	}
	return m
}

func TestWorkspaceRefusesAStoreWithoutConditionalWrites(t *testing.T) {
	d := newDesk(t)
	d.metered().careless = true
	here := d.tree("here", map[string]string{"a": "1"})
	for _, args := range [][]string{{"push", here}, {"sync", here}, {"prune", "--keep-last", "1"}} {
		d.refuses(api.CodeUnsupported, []string{"does not do conditional writes", "of two who save at once one would be lost"}, args...)
	}
}

// TestWorkspaceAsksTheStoreForNothingTwice: without a server there is no memory but the directory's and
// the user's cache, and that must not cost requests.
func TestWorkspaceAsksTheStoreForNothingTwice(t *testing.T) {
	testkit.Proves(t, "S8")
	d := newDesk(t)
	m := d.metered()
	here := d.tree("here", map[string]string{"a": "1"})
	d.does("push", here)
	check := func(what string, gets, puts int64) {
		t.Helper()
		if g, p := m.gets.Swap(0), m.puts.Swap(0); g != gets || p != puts {
			t.Errorf("%s: %d reads and %d writes, want %d and %d", what, g, p, gets, puts)
		}
	}
	check("the first push tries the store, too", 1, 3+3)
	d.does("push", here)
	check("a push of nothing", 1, 0)
	fill(t, here, map[string]string{"a": "2"})
	d.does("push", here)
	check("a push", 1, 3)
	d.does("pull", here)
	check("a pull of nothing", 1, 0)
	d.without("HOME").without("XDG_CACHE_HOME").berth("workspace", "push", here)
	check("a push without a cache", 1, 3)
}

func TestWorkspaceStoreProblemsAreToldWithTheirRemedy(t *testing.T) {
	testkit.Proves(t, "S13")
	d := newDesk(t)
	here := d.tree("here", map[string]string{"a": "1"})
	for code, want := range map[api.Code]string{
		api.CodeBlobCredentials: "AWS_ACCESS_KEY_ID", api.CodeBlobNoBucket: "correct its name in --store",
		api.CodeBlobRegion: "?region=", api.CodeBlobDenied: "get, put, list and delete", api.CodeBlobUnreachable: "--store names its address",
	} {
		d.deps.OpenStore = func(context.Context, string) (blob.Store, error) {
			return nil, refusal(code, "", "the store's words")
		}
		d.refuses(code, []string{"the store's words", want}, "push", here)
		d.refuses(code, []string{"the store's words", want}, "versions", "--store", "s3://bucket")
	}
	d.deps.OpenStore = func(context.Context, string) (blob.Store, error) {
		return nil, refusal(api.CodeBlobUnreachable, "Correct the endpoint in object_store.", "no answer")
	}
	d.refuses(api.CodeBlobUnreachable, []string{"Correct the endpoint in --store."}, "push", here)
}

func TestWorkspaceWords(t *testing.T) {
	d := newDesk(t)
	here := d.tree("here", map[string]string{"a": "1"})
	file := filepath.Join(here, "a")
	for _, c := range []struct {
		code  api.Code
		words []string
		args  []string
	}{
		{api.CodeBlobUnreachable, []string{"there is no directory /nosuch/store, and so nothing is saved in it"}, []string{"versions", "--store", "/nosuch/store"}},
		{api.CodeBlobUnreachable, []string{"there is no directory /nosuch/store"}, []string{"pull", "--store", "file:///nosuch/store", here}},
		{api.CodeInvalidRequest, []string{"the store is 'none'", "s3://BUCKET"}, []string{"push", "--store", "none", here}},
		{api.CodeInvalidPath, []string{`the prefix "../x" cannot be one`, "such as projects/shop"}, []string{"push", "--prefix", "../x", here}},
		{api.CodeNotADirectory, []string{"there is no directory " + here + "/nosuch"}, []string{"push", here + "/nosuch"}},
		{api.CodeNotADirectory, []string{file + " is not a directory"}, []string{"push", file}},
		{api.CodeNotADirectory, []string{file + " is not a directory"}, []string{"diff", file}},
		{api.CodeNotADirectory, []string{file + " is not a directory"}, []string{"verify", file}},
		{api.CodeNotADirectory, []string{"there is no directory 2026"}, []string{"prune", "--keep-last", "1", "2026"}},
		{api.CodeInvalidRequest, []string{"lies in " + here, "Keep the store beside the directory."}, []string{"push", "--store", here + "/.store", here}},
		{api.CodeInvalidRequest, []string{"lies in the store " + here}, []string{"pull", "--store", "file://" + here, here + "/x"}},
		{api.CodeUnknownVersion, []string{"nothing is saved in file://", "'berth workspace push' saves the first version"}, []string{"pull", here}},
		{api.CodeUnknownVersion, []string{"nothing is saved in file://"}, []string{"restore", d.path("new")}},
		{api.CodeUnknownVersion, []string{"nothing is saved in file://"}, []string{"restore", "--version", "x", here}},
		{api.CodeUnknownVersion, []string{"nothing is saved in file://"}, []string{"show"}},
		{api.CodeUnknownVersion, []string{"nothing is saved in file://"}, []string{"diff", here}},
		{api.CodeInvalidRequest, []string{"needs --keep-last, --keep-daily or both"}, []string{"prune"}},
		{api.CodeInvalidRequest, []string{"take whole numbers"}, []string{"prune", "--keep-last", "-1"}},
		{api.CodeInvalidRequest, []string{"berth workspace push needs one directory"}, []string{"push"}},
		{api.CodeInvalidRequest, []string{"berth workspace restore needs one directory"}, []string{"restore"}},
	} {
		if err := os.MkdirAll(d.store, 0o700); err != nil {
			t.Fatal(err)
		}
		d.refuses(c.code, c.words, c.args...)
	}
	if _, err := os.Stat(d.path("new")); err == nil {
		t.Error("a directory was made for nothing")
	}
	d.shell = d.without("BERTH_OBJECT_STORE")
	d.refuses(api.CodeInvalidRequest, []string{"no store is named", "BERTH_OBJECT_STORE"}, "versions")

	d.shell = d.with("BERTH_OBJECT_STORE", d.store)
	r := d.berth("workspace", "versions")
	if r.code != 0 || r.out != "" || !strings.Contains(r.err, "Nothing is saved in file://") {
		t.Errorf("versions of nothing: %+v", r)
	}
	if out := d.does("versions", "--json"); out != "{\"items\": []}\n" {
		t.Errorf("versions of nothing: %q", out)
	}
	r = d.berth("workspace", "verify")
	if r.code != 0 || !strings.Contains(r.err, "Nothing is saved in") {
		t.Errorf("verify of nothing: %+v", r)
	}
	contains(t, "prune of nothing", d.does("prune", "--keep-last", "1"), "removed 0 versions, kept 0")
}
