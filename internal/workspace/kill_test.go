package workspace_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/s3test"
	"github.com/berthdev/berth/internal/workspace"
)

// badWeather is what the network between a push and its store is like.
var badWeather = s3test.Faults{Error: 0.10, Deaf: 0.025, Lost: 0.025, Truncated: 0.01}

// Pushes that are killed, in every window there is and at any moment, leave versions that restore to what
// was pushed, and nothing else: on the disk, and on S3 in bad weather.
func TestKilledPushLeavesWholeVersions(t *testing.T) {
	testkit.Proves(t, "S7")
	for name, c := range map[string]struct {
		layout  workspace.Layout
		windows []string
		address func(t *testing.T) (good, bad string)
	}{
		"directory": {workspace.Packed, pushWindows, func(t *testing.T) (string, string) { dir := t.TempDir(); return dir, dir }},
		"S3": {workspace.Packed, pushWindows, func(t *testing.T) (string, string) {
			b := s3test.New(t)
			p := s3test.Proxy(t, b.Endpoint)
			p.Set(badWeather)
			t.Cleanup(func() {
				hits, total := p.Hits()
				t.Logf("%d requests, spoilt %v", total, hits)
			})
			return b.URL(""), s3test.Bucket{Name: b.Name, Endpoint: p.Endpoint}.URL("")
		}},
		"plain": {workspace.Plain, []string{"data half sent", "data stored", "manifest stored", "head asked", "head moved"}, func(t *testing.T) (string, string) { dir := t.TempDir(); return dir, dir }},
	} {
		t.Run(name, func(t *testing.T) {
			good, bad := c.address(t)
			k := &killing{r: &workspace.Repo{Store: openStore(t, good)}, saved: map[string]map[string]string{}, hits: map[string]int{}}
			k.job = job{Do: "sync", Store: bad, Dir: t.TempDir(), Index: filepath.Join(t.TempDir(), "index"), Layout: c.layout}
			for range testkit.Size(t, "i6.rounds") {
				k.round(t, c.windows)
			}
			k.check(t)
			t.Logf("%d pushes, %d gave up; killed: %v", k.rounds, k.failed, k.hits)
		})
	}
}

// killing is a tree that is pushed again and again by processes that are killed.
type killing struct {
	r      *workspace.Repo
	job    job
	rounds int
	saved  map[string]map[string]string // the tree of every push, by its note
	hits   map[string]int
	failed int           // pushes that gave up
	took   time.Duration // the last push that was left alone
}

// round kills once in every window, and half as often at any moment.
func (k *killing) round(t *testing.T, windows []string) {
	k.edit(t)
	k.settle(t)
	for i, window := range windows {
		k.inWindow(t, window)
		k.settle(t)
		if i%2 == 1 {
			k.atAnyMoment(t)
			k.settle(t)
		}
	}
}

// edit changes the tree, and remembers it under the next note.
func (k *killing) edit(t *testing.T) {
	n := k.rounds
	k.rounds++
	k.job.Note = fmt.Sprint("round ", n)
	write(t, k.job.Dir, map[string]string{
		"log": strings.Repeat(fmt.Sprintf("%04d", n), 1<<17), fmt.Sprintf("d%d/f%d", n%5, n%11): fmt.Sprint("text ", n), "always": "the same",
	})
	if n%4 == 2 {
		write(t, k.job.Dir, map[string]string{"large": strings.Repeat(fmt.Sprintf("%04d", n), 5<<18)})
	}
	if n%4 == 3 {
		remove(t, k.job.Dir, fmt.Sprintf("d%d", (n+2)%5))
	}
	k.saved[k.job.Note] = tree(t, k.job.Dir)
}

// inWindow pushes, and dies in a window. In bad weather it may not come so far at once.
func (k *killing) inWindow(t *testing.T, window string) {
	t.Helper()
	for range 20 {
		k.edit(t)
		j := k.job
		j.Window = window
		out, killed, err := j.run(t)
		switch {
		case !killed && err == nil:
			t.Fatalf("it was not killed at %q, and said %s", window, out)
		case !killed:
			k.failed++
			continue
		case string(out) != window:
			t.Fatalf("killed at %q, not at %q", out, window)
		}
		k.hits[window]++
		if is := k.listed(t)[j.Note]; is != committed(window) {
			t.Fatalf("killed at %q: listed %v", window, is)
		}
		return
	}
	t.Fatalf("nothing was killed at %q: %v", window, k.hits)
}

// atAnyMoment pushes, and is killed within the time that it takes.
func (k *killing) atAnyMoment(t *testing.T) {
	t.Helper()
	k.edit(t)
	cmd := k.job.command(t)
	must(t, cmd.Start())
	kill := time.AfterFunc(time.Duration(rand.Int64N(int64(k.took)+1)), func() { _ = cmd.Process.Kill() })
	_, killed, err := ended(cmd, cmd.Wait())
	kill.Stop()
	switch {
	case killed:
		k.hits["any moment"]++
	case err != nil:
		k.failed++
	default:
		k.took -= k.took / 4
	}
}

// settle pushes what is there until it has worked: what was killed before is in nobody's way, whether it
// had come to its end or not.
func (k *killing) settle(t *testing.T) {
	t.Helper()
	j, was := k.job, tree(t, k.job.Dir)
	j.Note += ", again"
	k.saved[j.Note] = was
	var said done
	for try := 1; ; try++ {
		began := time.Now()
		out, _, err := j.run(t)
		k.took = time.Since(began)
		if err == nil {
			must(t, json.Unmarshal(out, &said))
			break
		}
		if try == 20 {
			t.Fatalf("%d times: %v", try, err)
		}
		k.failed++
	}
	notes := k.listed(t)
	if said.Conflicts > 0 || !notes[k.job.Note] && !notes[j.Note] {
		t.Fatalf("a push after one that was killed: %+v", said)
	}
	if diff := cmp.Diff(was, tree(t, k.job.Dir)); diff != "" {
		t.Fatalf("it changed the tree:\n%s", diff)
	}
}

func (k *killing) listed(t *testing.T) map[string]bool {
	t.Helper()
	notes := map[string]bool{}
	for v, err := range k.r.Versions(t.Context()) {
		must(t, err)
		if notes[v.Note] {
			t.Fatalf("%s is listed twice", v.Note)
		}
		notes[v.Note] = true
	}
	return notes
}

// check restores everything that is listed.
func (k *killing) check(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for v, err := range k.r.Versions(t.Context()) {
		must(t, err)
		if _, err := k.r.Restore(t.Context(), open(t, dir), nil, v.ID, workspace.PullOptions{}); err != nil {
			t.Fatalf("%s: %v", v.Note, err)
		}
		if diff := cmp.Diff(k.saved[v.Note], tree(t, dir)); diff != "" {
			t.Fatalf("%s restores to something else:\n%s", v.Note, diff)
		}
	}
	if v, err := k.r.Verify(t.Context()); err != nil || len(v.Problems) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
}
