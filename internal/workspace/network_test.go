package workspace_test

import (
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// A store that fails in any step of a sync is named with the step, the object, how far the sync came and that a retry
// resumes; the store's code stays, for it says what to do. The retry then does resume.
func TestNetworkErrorsSayHowFarASyncCame(t *testing.T) {
	testkit.Proves(t, "S13")
	a := t.TempDir()
	many(t, a)
	whole := newMemory()
	push(t, &workspace.Repo{Store: whole}, a, nil)
	for _, c := range []struct {
		name, op, key string // the request that fails
		pulls         bool
		says          []string
	}{
		{"push reads HEAD", "get", "HEAD", false, []string{"read HEAD", "nothing was sent", "retry"}},
		{"push sends a pack", "put", "packs/", false, []string{"store packs/", "changed files were sent", "nothing was committed", "retry"}},
		{"push stores the manifest", "put", workspace.StateFile, false, []string{"store the manifest", "changed files were sent", "nothing was committed", "retry"}},
		{"push commits", "put", "HEAD", false, []string{"HEAD", "not known whether it was committed", "retry"}},
		{"pull reads HEAD", "get", "HEAD", true, []string{"read HEAD", "nothing was changed", "retry"}},
		{"pull reads the manifest", "get", workspace.StateFile, true, []string{"read the manifest", "nothing was changed", "retry"}},
		{"pull reads a pack", "get", "packs/", true, []string{"read packs/", "files had been written", "retry"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMemory()
			if c.pulls {
				m = whole
			}
			m.hook = func(op, key string) error {
				if op == c.op && strings.Contains(key, c.key) {
					return fault.Errorf(op+" "+key, api.CodeBlobUnreachable, "%w", errBroken)
				}
				return nil
			}
			r, b := &workspace.Repo{Store: m}, t.TempDir()
			do := func() error {
				_, err := r.Push(t.Context(), open(t, a), nil, workspace.PushOptions{})
				if c.pulls {
					_, err = r.Pull(t.Context(), open(t, b), nil, workspace.PullOptions{})
				}
				return err
			}
			err := do()
			wantCode(t, err, api.CodeBlobUnreachable)
			for _, word := range append(c.says, c.op+" ") {
				if err == nil || !strings.Contains(err.Error(), word) {
					t.Errorf("%v\ndoes not say %q", err, word)
				}
			}
			m.hook = nil
			if err := do(); err != nil {
				t.Errorf("the retry: %v", err)
			}
			if !c.pulls {
				pull(t, r, b, nil, workspace.PullOptions{})
			}
			same(t, a, b)
		})
	}
}
