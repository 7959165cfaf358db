package cli

import (
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
)

const (
	newer = "20261115T031402.123456789Z-1a2b3c"
	older = "20261114T031402.123456789Z-4d5e6f"
	box1  = "/api/v1/sandboxes/box"
)

// saving is a server that has versions of one sandbox.
func saving(t *testing.T) (*fakeServer, *shell) {
	f := newFakeServer(t)
	changes := api.VersionDiff{From: older, To: newer, Added: 1, Modified: 1, Deleted: 1, Renamed: 1, Bytes: 30, Paths: []api.PathChange{
		{Path: "a", Change: "added", Kind: "file", Size: 10}, {Path: "b\x1b", Change: "deleted", Kind: "link"},
		{Path: "c", Change: "modified", Kind: "file", Size: 20, Was: 5}, {Path: "e", Change: "renamed", Kind: "file", From: "d", Size: 1, Was: 1},
		{Path: "g", Change: "modified", Kind: "file", Meta: true}, {Path: "h", Change: "added", Kind: "folder"}, {Path: "i", Change: "deleted", Kind: "file"},
	}}
	synced := api.Synced{SandboxID: "1", Version: newer, New: true, Stats: api.SyncStats{FilesUploaded: 2, FilesSkipped: 3, BytesTransferred: 30},
		Conflicts: []api.Conflict{{Path: "both", Copy: "other.conflict-1"}}, Skipped: []api.SkippedFile{{Path: "pipe", Why: "it is a pipe"}}}
	more := changes
	more.Truncated = true
	f.canned = map[string]any{
		"GET " + box1 + "/versions": api.List[api.Version]{Items: []api.Version{
			{ID: newer, Sequence: 2, CreatedAt: birth, Files: 5, Bytes: 2048, Note: "restored"}, {ID: older, Sequence: 1, CreatedAt: birth, Files: 1},
		}},
		"GET /api/v1/sandboxes/new/versions":                    api.List[api.Version]{Items: []api.Version{}},
		"GET " + box1 + "/versions/" + newer:                    api.VersionDetail{Version: api.Version{ID: newer, CreatedAt: birth, Files: 5, Bytes: 2048, Note: "restored"}, Changes: changes},
		"GET " + box1 + "/versions/" + older + "/diff/" + newer: more,
		"POST " + box1 + "/sync":                                synced,
		"POST /api/v1/sandboxes/new/sync":                       api.Synced{},
		"POST " + box1 + "/restore":                             api.Restored{Synced: synced, From: older, Sandbox: api.Sandbox{Name: "box"}},
		"POST " + box1 + "/prune":                               api.Pruned{Kept: 1, Removed: []api.Version{{ID: older, CreatedAt: birth}}, Objects: 1, Bytes: 7, Waiting: 2},
		"POST " + box1 + "/verify":                              api.Verified{Versions: 2, Files: 9, Bytes: 1024, Problems: []api.VersionProblem{}},
		"POST /api/v1/sandboxes/new/verify":                     api.Verified{Versions: 2, Problems: []api.VersionProblem{{Version: older, Why: "gone"}, {Version: older, Path: "f", Why: "cut"}}},
	}
	return f, newShell(t, f)
}

func TestVersionsAreListedAndShown(t *testing.T) {
	_, s := saving(t)
	contains(t, "list", s.ok("versions", "box"), "VERSION", newer, "2.0 KiB", "restored", older)
	if out := s.ok("versions", "box", "-q", "--limit", "1"); out != newer+"\n" {
		t.Errorf("-q printed %q", out)
	}
	if got := decode[api.List[api.Version]](t, s.ok("versions", "box", "--json")); len(got.Items) != 2 {
		t.Errorf("%+v", got)
	}
	contains(t, "nothing", s.berth("versions", "new").err, "There is no version of it")
	contains(t, "one", s.ok("versions", "box", "1a2b3c"), newer, "restored", "A  a  10 bytes", "D  b", "M  c  20 bytes, was 5 bytes", "1 added, 1 modified, 1 renamed, 1 deleted; 30 bytes new", "R  d → e", "M  g  (permissions or time)", "A  h/")
	if out := s.ok("versions", "box", newer, "-q"); strings.Contains(out, "\x1b") || strings.Count(out, "\n") != 7 {
		t.Errorf("%q", out)
	}
	if got := decode[api.VersionDetail](t, s.ok("versions", "box", newer, "--json")); got.Changes.Bytes != 30 {
		t.Errorf("%+v", got)
	}
	for typed, why := range map[string]string{"nosuch": "there is no version", "2026111": "2 versions of box are called like", "": "there is no version"} {
		if r := s.berth("versions", "box", typed); r.code != 125 || !strings.Contains(r.err, why) {
			t.Errorf("%q: %+v", typed, r)
		}
	}
	r := s.berth("diff", "box", "4d5e6f")
	contains(t, "diff", r.out+r.err, "A  a", "1 added", "There are more paths than these")
	if got := decode[api.VersionDiff](t, s.ok("diff", "box", older, newer, "--json")); !got.Truncated {
		t.Errorf("%+v", got)
	}
	if r := s.berth("diff", "box", "nosuch"); r.code != 125 {
		t.Errorf("%+v", r)
	}
}

func TestSyncAndRestoreTellWhatTheyDid(t *testing.T) {
	f, s := saving(t)
	r := s.berth("sync", "box", "--note", "n")
	contains(t, "sync", r.out, "saved version "+newer+": 2 files sent, 30 bytes, 3 unchanged")
	contains(t, "sync", r.err, "kept twice: both", "left out pipe: it is a pipe")
	contains(t, "body", f.bodies["POST "+box1+"/sync"], `"note":"n"`)
	if r := s.berth("sync", "box", "-q"); r.out != newer+"\n" || r.code != 0 {
		t.Errorf("%+v", r)
	}
	if got := decode[api.Synced](t, s.ok("sync", "box", "--json")); got.Version != newer {
		t.Errorf("%+v", got)
	}
	contains(t, "empty", s.ok("sync", "new"), "there is nothing in it to save")
	contains(t, "restore", s.berth("restore", "box", "4d5e6f", "--force").out, "box has version "+older+" now")
	contains(t, "body", f.bodies["POST "+box1+"/restore"], `"version":"`+older+`"`, `"force":true`)
	if got := decode[api.Restored](t, s.ok("restore", "box", older, "--into", "x", "--json")); got.From != older {
		t.Errorf("%+v", got)
	}
	contains(t, "body", f.bodies["POST "+box1+"/restore"], `"into":"x"`)
	for _, args := range [][]string{{"restore", "box", "nosuch"}, {"restore", "box"}, {"sync", "nosuch"}, {"restore", "nosuch", older}} {
		if r := s.berth(args...); r.code != 125 || r.err == "" {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

func TestPruneAndVerify(t *testing.T) {
	f, s := saving(t)
	contains(t, "prune", s.ok("prune", "box", "--keep-last", "1"), "removed "+older, "removed 1 version, kept 1; freed 7 bytes in 1 object; 2 objects are freed by a prune a day from now")
	contains(t, "dry", s.ok("prune", "box", "--keep-daily", "3", "-n"), "would remove "+older)
	contains(t, "body", f.bodies["POST "+box1+"/prune"], `"keep_daily":3`, `"dry_run":true`)
	if out := s.ok("prune", "box", "--keep-last", "1", "-q"); out != older+"\n" {
		t.Errorf("%q", out)
	}
	if got := decode[api.Pruned](t, s.ok("prune", "box", "--keep-last", "1", "--json")); got.Kept != 1 {
		t.Errorf("%+v", got)
	}
	for _, args := range [][]string{{"prune", "box"}, {"prune", "box", "--keep-last", "-1"}, {"prune", "nosuch", "--keep-last", "1"}, {"verify", "nosuch"}} {
		if r := s.berth(args...); r.code != 125 || r.err == "" {
			t.Errorf("%v: %+v", args, r)
		}
	}
	contains(t, "verify", s.ok("verify", "box"), "2 versions are whole: read 9 files, 1.0 KiB")
	r := s.berth("verify", "new")
	if r.code != 1 || !strings.Contains(r.out, "1 version is whole, 1 not") || strings.Count(r.err, "\n") != 2 {
		t.Errorf("%+v", r)
	}
	if r := s.berth("verify", "new", "--json"); r.code != 1 || len(decode[api.Verified](t, r.out).Problems) != 2 {
		t.Errorf("%+v", r)
	}
}
