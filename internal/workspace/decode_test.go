package workspace_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// sample is the manifest of a tree with everything in it, as stored.
func sample(t testing.TB, layout workspace.Layout) []byte {
	t.Helper()
	dir := t.TempDir()
	furnish(t, dir)
	return push(t, &workspace.Repo{Store: newMemory(), Layout: layout}, dir, nil).State
}

// A manifest that Berth wrote is read the fast way, and both ways read the same.
func TestBothWaysReadTheSame(t *testing.T) {
	for _, layout := range []workspace.Layout{workspace.Packed, workspace.Plain} {
		text := sample(t, layout)
		if !workspace.IsOwn(text) {
			t.Fatal("it is not read the fast way")
		}
		fast, err := workspace.Decode(text)
		must(t, err)
		slow, err := workspace.DecodeAny(text)
		must(t, err)
		if diff := cmp.Diff(slow, fast); diff != "" {
			t.Errorf("%s", diff)
		}
		if again := fast.Encode(); !bytes.Equal(again, text) {
			t.Error("it is not written as it was read")
		}
		var indented bytes.Buffer
		must(t, json.Indent(&indented, text, "", "  "))
		spaced, err := workspace.Decode(indented.Bytes())
		must(t, err)
		if diff := cmp.Diff(slow, spaced); diff != "" {
			t.Errorf("%s", diff)
		}
	}
}

// A manifest with nothing but the contract in it is read.
func TestContractIsRead(t *testing.T) {
	testkit.Proves(t, "S1")
	m, err := workspace.Decode([]byte(`{"version":"1.7","last_synced_at":5,"unknown":{"a":[1,2]},"files":[
		{"path":"z","checksum":"5d41402abc4b2a76b9719d911017c592","size":5,"modified_at":7},
		{"path":"a/b/c","checksum":"D41D8CD98F00B204E9800998ECF8427E","size":0,"modified_at":7,"mode":0}]}`))
	must(t, err)
	var lines []string
	for _, e := range m.Entries {
		lines = append(lines, e.String())
	}
	want := []string{"a/ 755", "a/b/ 755", "a/b/c 0 0 bytes 00000000", "z 644 5 bytes 00000000"}
	if diff := cmp.Diff(want, lines); diff != "" || m.Entries[3].ModTime != 7e9 {
		t.Errorf("%s", diff)
	}
	if empty, err := workspace.Decode([]byte(`{"version":"1","files":null}`)); err != nil || len(empty.Entries) > 0 {
		t.Errorf("%v, %v", empty, err)
	}
}

// Every hostile manifest is refused as a whole, by name.
func TestHostileManifestsAreRefused(t *testing.T) {
	testkit.Proves(t, "S4", "S12")
	file := func(path string) string {
		return fmt.Sprintf(`{"path":%q,"checksum":"5d41402abc4b2a76b9719d911017c592","size":0,"modified_at":7,"sha256":"%064d"}`, path, 7)
	}
	files := func(list ...string) string {
		return `{"version":"1.0","berth":{"id":"v"},"files":[` + strings.Join(list, ",") + `]}`
	}
	packed := func(size, pack, offset string) string {
		return `{"version":"1.0","berth":{"id":"v","packs":[{"key":"packs/a","size":10}]},"files":[{"path":"f","checksum":"5d41402abc4b2a76b9719d911017c592","sha256":"` +
			strings.Repeat("a", 64) + `","size":` + size + `,"pack":` + pack + `,"offset":` + offset + `}]}`
	}
	if _, err := workspace.Decode([]byte(packed("5", "0", "5"))); err != nil {
		t.Fatalf("a good one is refused: %v", err)
	}
	for name, text := range map[string]string{
		"up":                files(file("../x")),
		"up within":         files(file("a/../x")),
		"absolute":          files(file("/abs")),
		"dot":               files(file("./x")),
		"empty segment":     files(file("a//x")),
		"empty":             files(file("")),
		"NUL":               files(strings.ReplaceAll(file("a?b"), "?", `\u0000`)),
		"our own":           files(file(".sandbox-state")),
		"our own too":       files(file(".sandbox-state.idx")),
		"temporary":         files(file("d/.berth-tmp-0123456789abcdef")),
		"twice":             files(file("a"), file("a")),
		"a and a/b":         files(file("a"), file("a/b")),
		"in no folder":      files(file("d/b")),
		"long name":         files(file(strings.Repeat("n", 256))),
		"10,000 levels":     files(file(strings.Repeat("d/", 10_000) + "f")),
		"negative size":     packed("-1", "0", "0"),
		"huge size":         packed("1000000000000000000", "0", "0"),
		"behind its pack":   packed("5", "0", "6"),
		"before its pack":   packed("5", "0", "-1"),
		"no such pack":      packed("5", "1", "0"),
		"negative pack":     packed("5", "-1", "0"),
		"no pack":           strings.ReplaceAll(packed("5", "0", "0"), `,"pack":0`, ""),
		"no sha256":         strings.ReplaceAll(packed("5", "0", "0"), `"sha256"`, `"other"`),
		"short sha256":      strings.ReplaceAll(packed("5", "0", "0"), `aaaa"`, `a"`),
		"odd sha256":        strings.ReplaceAll(packed("5", "0", "0"), `aaaa"`, `zzzz"`),
		"odd checksum":      strings.ReplaceAll(files(file("f")), "5d41", "zz41"),
		"short checksum":    strings.ReplaceAll(files(file("f")), "5d41", ""),
		"a pack elsewhere":  strings.ReplaceAll(packed("5", "0", "0"), "packs/a", "../../other/packs/a"),
		"a pack of another": strings.ReplaceAll(packed("5", "0", "0"), "packs/a", "HEAD"),
		"a pack less":       strings.ReplaceAll(packed("5", "0", "0"), `"size":10`, `"size":-10`),
		"layout":            strings.ReplaceAll(packed("5", "0", "0"), `"id":"v"`, `"id":"v","layout":"odd"`),
		"version 99":        `{"version":"99","files":[]}`,
		"no version":        `{"files":[]}`,
		"no JSON":           `nothing`,
		"a list":            `[]`,
		"empty text":        ``,
		"cut":               files(file("f"))[:40],
		"deep":              `{"version":"1.0","x":` + strings.Repeat("[", 100_000),
		"files no list":     `{"version":"1.0","files":{}}`,
		"file no object":    `{"version":"1.0","files":[1]}`,
		"folder no object":  `{"version":"1.0","folders":[1]}`,
		"packs no list":     `{"version":"1.0","berth":{"packs":1}}`,
		"berth no object":   `{"version":"1.0","berth":1}`,
		"link to nothing":   `{"version":"1.0","links":[{"path":"l","target":""}]}`,
		"link to NUL":       `{"version":"1.0","links":[{"path":"l","target":"a\u0000"}]}`,
		"long link":         `{"version":"1.0","links":[{"path":"l","target":"` + strings.Repeat("t", 4096) + `"}]}`,
		"too many":          `{"version":"1.0","folders":[` + strings.Repeat(`{},`, 1_000_000) + `{}]}`,
	} {
		m, err := workspace.Decode([]byte(text))
		if err == nil {
			t.Errorf("%s: read as %d entries", name, len(m.Entries))
			continue
		}
		wantCode(t, err, api.CodeBadManifest)
		if len(err.Error()) > 1000 {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
	}
}

// FuzzDecode: nothing crashes the readers, what they read they read alike, and what is read can be written
// and read again.
func FuzzDecode(f *testing.F) {
	f.Add(sample(f, workspace.Packed))
	f.Add(sample(f, workspace.Plain))
	f.Add([]byte(`{"version":"1.0","last_synced_at":1,"files":[{"path":"a/b","checksum":"5d41402abc4b2a76b9719d911017c592","size":5,"modified_at":7}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := workspace.Decode(text)
		slow, slowErr := workspace.DecodeAny(text)
		if (err == nil) != (slowErr == nil) {
			t.Fatalf("one way %v, the other %v", err, slowErr)
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(slow, m); diff != "" {
			t.Fatal(diff)
		}
		if m.ID == "" {
			return
		}
		if again, err := workspace.Decode(m.Encode()); err != nil || len(again.Entries) != len(m.Entries) {
			t.Fatalf("read again: %v", err)
		}
	})
}

// FuzzDecodeIndex: nothing crashes the reader of the index.
func FuzzDecodeIndex(f *testing.F) {
	dir := f.TempDir()
	furnish(f, dir)
	x := push(f, &workspace.Repo{Store: newMemory()}, dir, nil).Index
	f.Add(workspace.EncodeIndex(x))
	f.Fuzz(func(t *testing.T, b []byte) {
		if x, err := workspace.DecodeIndex(b); err == nil && !bytes.Equal(workspace.EncodeIndex(x), b) {
			t.Fatal("read, and not written alike")
		}
	})
}

// Any manifest that can be made is written and read back.
func TestManifestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &workspace.Manifest{ID: "v", Lineage: "l", At: time.Unix(rapid.Int64Range(-1e9, 1e10).Draw(t, "at"), 0).UTC(), Packs: []workspace.Pack{{Key: "packs/a", Size: 1 << 40}}}
		seen := map[string]bool{}
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			name := strings.Map(func(r rune) rune {
				if r == '/' || r == 0 {
					return 'x'
				}
				return r
			}, string(rapid.SliceOfN(rapid.Byte(), 1, 30).Draw(t, "name")))
			name = strings.ReplaceAll(strings.ReplaceAll(name, "\x00", "0"), "/", "_")
			if name == "." || name == ".." || seen[name] || len(name) > 255 {
				continue
			}
			seen[name] = true
			e := workspace.Entry{Path: name, Kind: workspace.File, Mode: rapid.Uint32Range(0, 0o777).Draw(t, "mode"), ModTime: rapid.Int64().Draw(t, "time"), Size: rapid.Int64Range(1, 1000).Draw(t, "size")}
			e.Sum.SHA256[0] = 1
			m.Entries = append(m.Entries, e)
		}
		sortEntries(m.Entries)
		got, err := workspace.Decode(m.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m.Entries, got.Entries); diff != "" && len(m.Entries) > 0 {
			t.Fatal(diff)
		}
	})
}

// The state file of a tree is only a hint: whatever is there, nobody hangs or follows it.
func TestStateFileIsAHint(t *testing.T) {
	testkit.Proves(t, "S4", "S5")
	dir := t.TempDir()
	d := open(t, dir)
	if m, err := workspace.ReadState(d); m != nil || err != nil {
		t.Errorf("none: %v, %v", m, err)
	}
	path := filepath.Join(dir, workspace.StateFile)
	must(t, os.Symlink("/etc/passwd", path))
	if m, err := workspace.ReadState(d); m != nil || err != nil {
		t.Errorf("a link: %v, %v", m, err)
	}
	must(t, workspace.WriteState(d, sample(t, workspace.Packed)))
	if m, err := workspace.ReadState(d); err != nil || len(m.Entries) == 0 {
		t.Errorf("%v, %v", m, err)
	}
	must(t, os.WriteFile(path, []byte("{"), 0o644))
	_, err := workspace.ReadState(d)
	wantCode(t, err, api.CodeBadManifest)
	must(t, os.Truncate(path, 65<<20))
	_, err = workspace.ReadState(d)
	wantCode(t, err, api.CodeBadManifest)
	must(t, os.Remove(path), os.Mkdir(path, 0o755), os.WriteFile(filepath.Join(path, "x"), nil, 0o644))
	_, err = workspace.ReadState(d)
	wantCode(t, err, api.CodeBadManifest)
	if err := workspace.WriteState(d, nil); err == nil {
		t.Error("wrote over a folder")
	}
}
