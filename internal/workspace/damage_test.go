package workspace_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// damage is one way in which a manifest can be other than it should be.
type damage struct {
	name string
	text []byte // nil: it is missing
	// sealed says that HEAD has the checksum of the damaged one: whoever wrote it is wrong, or lies.
	sealed bool
}

// damages are so many ways to damage a manifest.
func damages(text []byte, n int) (all []damage) {
	rnd := rand.New(rand.NewPCG(1, 2))
	add := func(name string, is []byte) { all = append(all, damage{name: name, text: is}, damage{name, is, true}) }
	once := func(name, old, is string) {
		add(name, bytes.Replace(text, []byte(old), []byte(is), 1))
	}
	all = append(all, damage{name: "missing"})
	for percent := 0; percent < 100; percent += 2 {
		add(fmt.Sprintf("cut at %d %%", percent), text[:len(text)*percent/100])
	}
	once("of another lineage", `"lineage":"`, `"lineage":"x`)
	once("of no lineage", `"lineage":"`, `"x":"`)
	once("of another version", `"id":"`, `"id":"x`)
	once("of another format", `{"version":"1`, `{"version":"9`)
	for _, path := range []string{"../", "/", "./", "d/../", ".sandbox-state", `\u0000`, "d//"} {
		once(fmt.Sprintf("with a path %q", path), `{"path":"f"`, `{"path":"`+path+`f"`)
	}
	once("with an empty path", `{"path":"f"`, `{"path":""`)
	once("with a file twice", `{"path":"f"`, `{"path":"copy"`)
	once("with a file in a file", `{"path":"f"`, `{"path":"copy/f"`)
	once("with a file that is a folder", `{"path":"f"`, `{"path":"d"`)
	once("with a negative size", `"size":3`, `"size":-3`)
	once("with a huge size", `"size":3`, `"size":1000000000000000000`)
	once("with no such pack", `"pack":0`, `"pack":99`)
	once("with bytes beyond the pack", `"offset":`, `"offset":9`+"99999999")
	once("with no list", `"files":[`, `"files":{`)
	for i := 0; len(all) < n; i++ {
		is := bytes.Clone(text)
		from := rnd.IntN(len(is))
		switch i % 3 {
		case 0, 1:
			is[from] ^= 1 << rnd.IntN(8)
			all = append(all, damage{name: fmt.Sprintf("with a bit of byte %d the other way", from), text: is})
		case 2:
			to := min(len(is), from+1+rnd.IntN(200))
			all = append(all, damage{name: fmt.Sprintf("without bytes %d to %d", from, to), text: append(is[:from], is[to:]...)})
		}
	}
	return all
}

// A manifest that was damaged in any way never deletes or changes a file here, and says what is wrong.
func TestDamagedManifestDeletesNothing(t *testing.T) {
	testkit.Proves(t, "S3", "S4")
	m := newMemory()
	r, a, b := &workspace.Repo{Store: m}, t.TempDir(), t.TempDir()
	furnish(t, a)
	write(t, a, map[string]string{"gone1": "1", "gone2": "2"})
	first := push(t, r, a, nil)
	here := pull(t, r, b, nil, workspace.PullOptions{}).Index
	write(t, b, map[string]string{"mine": "1"})
	remove(t, a, "gone1", "gone2")
	next := push(t, r, a, first.Index)
	before, good := tree(t, b), m.clone()
	key := next.Version + "/" + workspace.StateFile
	is := good[key]
	dir := open(t, b)
	tried := 0
	for _, d := range damages(is.data, testkit.Size(t, "i7.manifests")) {
		if bytes.Equal(d.text, is.data) {
			t.Fatalf("%s: nothing is damaged", d.name)
		}
		m.data = map[string]kept{}
		for k, v := range good {
			m.data[k] = v
		}
		if d.text == nil {
			delete(m.data, key)
		} else {
			m.data[key] = kept{d.text, is.tag, is.at}
		}
		if d.sealed {
			m.replace("HEAD", fmt.Sprintf("%x", sha256.Sum256(is.data)), fmt.Sprintf("%x", sha256.Sum256(d.text)))
		}
		tried++
		for _, o := range []workspace.PullOptions{{}, {Discard: true}} {
			res, err := r.Pull(t.Context(), dir, here, o)
			if err == nil {
				t.Fatalf("a manifest %s (sealed: %v) was taken: %+v", d.name, d.sealed, res.Stats)
			}
			if code := fault.CodeOf(err); d.text != nil && code != api.CodeBadManifest {
				t.Errorf("%s: %v has the code %s", d.name, err, code)
			}
		}
	}
	m.data = map[string]kept{} // not even a HEAD
	for _, o := range []workspace.PullOptions{{}, {Discard: true}, {AllowMassDelete: true}} {
		if res, err := r.Pull(t.Context(), dir, here, o); err == nil {
			t.Errorf("from an empty store: %+v", res)
		}
	}
	if diff := cmp.Diff(before, tree(t, b)); diff != "" {
		t.Errorf("the tree changed:\n%s", diff)
	}
	t.Logf("%d manifests", tried)
}
