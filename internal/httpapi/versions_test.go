package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob/dirblob"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
	"github.com/berthdev/berth/internal/workspacesync"
)

// keeps gives a site a store of versions.
func keeps(t *testing.T) func(*Options) {
	t.Helper()
	store, err := dirblob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) {
		o.Saves = true
		o.Syncer = workspacesync.New(workspacesync.Options{Store: store, Dir: t.TempDir(), Records: o.Store.Versions(), Drivers: o.Engine.(*testEngine).options.Drivers, Plan: func(s sandbox.Sandbox) workspacesync.Plan {
			return workspacesync.Plan{Prefix: "docs/" + s.Owner.Tenant + "/" + s.ID + "/", Off: s.Spec.Metadata["off"] != ""}
		}})
		o.Saving = func(context.Context) api.Check {
			return api.Check{Name: "object store", Status: "warning", Detail: "slow"}
		}
	}
}

// saved makes versions of a sandbox, each with one file more, oldest first.
func (s *site) saved(id string, n int) (ids []string) {
	s.t.Helper()
	dir := s.t.TempDir()
	tree, err := workspace.OpenDir(dir)
	if err != nil {
		s.t.Fatal(err)
	}
	defer tree.Close()
	repo := s.Syncer.Repo(sandbox.Sandbox{ID: id, Owner: sandbox.Owner{Tenant: "acme"}})
	var base *workspace.Index
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte("x"), 0o600); err != nil {
			s.t.Fatal(err)
		}
		res, err := repo.Push(s.t.Context(), tree, base, workspace.PushOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		base, ids = res.Index, append(ids, res.Version)
	}
	return ids
}

// Versions are read page by page and compared, only by those who may see the sandbox.
func TestVersionsOverHTTP(t *testing.T) {
	testkit.Proves(t, "S7", "S17")
	s := newSite(t, keeps(t))
	box := into[api.Sandbox](s.post(sandboxesPath, `{"name":"box"}`).is(http.StatusCreated))
	other := into[api.Sandbox](s.post(sandboxesPath, `{"name":"other"}`).is(http.StatusCreated))
	one := sandboxesPath + "/box"
	if got := into[api.List[api.Version]](s.get(one + "/versions").is(http.StatusOK)); len(got.Items) != 0 || got.Items == nil {
		t.Errorf("%+v", got)
	}
	ids := s.saved(box.ID, 5)
	var read []string
	for cursor := ""; ; {
		page := into[api.List[api.Version]](s.do(call{path: one + "/versions?limit=2&cursor=" + cursor, key: s.read}).is(http.StatusOK))
		for _, v := range page.Items {
			read = append(read, v.ID)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
		s.get(sandboxesPath + "/other/versions?cursor=" + cursor).fails(api.CodeInvalidCursor)
	}
	if fmt.Sprint(read) != fmt.Sprint([]string{ids[4], ids[3], ids[2], ids[1], ids[0]}) {
		t.Errorf("%q, of %q", read, ids)
	}
	if d := into[api.VersionDetail](s.get(one + "/versions/" + ids[1]).is(http.StatusOK)); d.ID != ids[1] || d.Changes.From != ids[0] || d.Changes.Added != 1 || d.Changes.Paths[0].Path != "1" || d.Files != 2 {
		t.Errorf("%+v", d)
	}
	if d := into[api.VersionDiff](s.get(one + "/versions/" + ids[4] + "/diff/" + ids[0]).is(http.StatusOK)); d.Deleted != 4 || d.Paths[0].Size != 1 {
		t.Errorf("%+v", d)
	}
	s.get(one + "/versions/" + ids[0] + "/diff/none").fails(api.CodeUnknownVersion)
	s.get(one + "/versions/none").fails(api.CodeUnknownVersion)
	s.post(one+"/restore", `{"version":"none"}`).fails(api.CodeUnknownVersion)
	s.post(one+"/restore", `{"into":"other"}`).fails(api.CodeNameTaken)
	s.post(one+"/restore", `{"into":"NO"}`).fails(api.CodeInvalidName)
	s.post(one+"/prune", `{}`).fails(api.CodeInvalidRequest)

	// Of another tenant's nothing is seen, and who may read may not change.
	rival := s.newKey("rival", api.ScopeAdmin)
	for _, c := range []struct{ method, path, body string }{
		{http.MethodGet, "/versions", ""}, {http.MethodGet, "/versions/" + ids[0], ""}, {http.MethodGet, "/versions/" + ids[0] + "/diff/" + ids[1], ""},
		{http.MethodPost, "/sync", "{}"}, {http.MethodPost, "/restore", "{}"}, {http.MethodPost, "/restore", `{"into":"stolen"}`},
		{http.MethodPost, "/prune", `{"keep_last":1}`}, {http.MethodPost, "/verify", ""}, {http.MethodDelete, "?purge=true", ""},
	} {
		s.do(call{method: c.method, path: sandboxesPath + "/" + box.ID + c.path, key: rival, body: c.body}).fails(api.CodeNotFound)
		if c.method != http.MethodGet && c.path != "/verify" {
			s.do(call{method: c.method, path: sandboxesPath + "/" + box.ID + c.path, key: s.read, body: c.body}).fails(api.CodeForbidden)
		}
	}
	if v := into[api.Verified](s.post(one+"/verify", "").is(http.StatusOK)); v.Versions != 5 || len(v.Problems) != 0 {
		t.Errorf("%+v", v)
	}
	if p := into[api.Pruned](s.post(one+"/prune", `{"keep_last":3}`).is(http.StatusOK)); p.Kept != 3 || len(p.Removed) != 2 || p.Removed[0].ID != ids[1] {
		t.Errorf("%+v", p)
	}

	// A driver without files has nothing to bring back.
	if got := into[api.Synced](s.post(one+"/sync", `{"note":"x"}`).is(http.StatusOK)); got.New || got.SandboxID != box.ID {
		t.Errorf("%+v", got)
	}
	s.post(one+"/restore", `{}`).fails(api.CodeUnsupported)

	// Deleted: by its id, until its versions are purged.
	s.remove(one).is(http.StatusNoContent)
	if got := into[api.List[api.Version]](s.get(sandboxesPath + "/" + box.ID + "/versions").is(http.StatusOK)); len(got.Items) != 3 {
		t.Errorf("%+v", got)
	}
	s.post(sandboxesPath+"/"+box.ID+"/sync", "").fails(api.CodeDeleted)
	s.post(sandboxesPath+"/"+box.ID+"/restore", "{}").fails(api.CodeDeleted)
	s.remove(sandboxesPath + "/" + box.ID).fails(api.CodeDeleted)
	s.remove(sandboxesPath + "/" + box.ID + "?purge=true").is(http.StatusNoContent)
	if got := into[api.List[api.Version]](s.get(sandboxesPath + "/" + box.ID + "/versions").is(http.StatusOK)); len(got.Items) != 0 {
		t.Errorf("%+v", got)
	}
	if p := s.post(sandboxesPath+"/"+box.ID+"/restore", `{"into":"late"}`).fails(api.CodeUnknownVersion); !strings.Contains(p.Detail, "it was deleted at") || !strings.Contains(p.Hint, "deleted_retention") {
		t.Errorf("%+v", p)
	}
	s.remove(sandboxesPath + "/" + other.ID + "?purge=true").is(http.StatusNoContent)
	if ready := s.get("/readyz"); !strings.Contains(string(ready.body), `"object store"`) || ready.status != http.StatusOK {
		t.Errorf("%d %s", ready.status, ready.body)
	}
}

// Where nothing is saved, everything about versions says so.
func TestNoVersionsWithoutAStore(t *testing.T) {
	testkit.Proves(t, "S14")
	s, off := newSite(t), newSite(t, keeps(t))
	s.post(sandboxesPath, `{"name":"box"}`).is(http.StatusCreated)
	off.post(sandboxesPath, `{"name":"box","metadata":{"off":"yes"}}`).is(http.StatusCreated)
	for _, s := range []*site{s, off} {
		s.get(sandboxesPath + "/box/versions").fails(api.CodeUnsupported)
		for _, verb := range []string{"sync", "restore", "verify"} {
			s.post(sandboxesPath+"/box/"+verb, "").fails(api.CodeUnsupported)
		}
	}
	s.remove(sandboxesPath + "/box?purge=true").is(http.StatusNoContent)
}
