package store_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// walk reads every page and returns the ids in order.
func walk(t testing.TB, s store.Scope, f store.Filter, limit int) []string {
	t.Helper()
	var ids []string
	for page := (store.Page{Limit: limit}); ; {
		items, next, err := s.Sandboxes(t.Context(), f, page)
		noError(t, err)
		if len(items) > limit {
			t.Fatalf("page of %d has %d items", limit, len(items))
		}
		for _, sb := range items {
			ids = append(ids, sb.ID)
		}
		if page.After = next; next.IsZero() {
			return ids
		}
	}
}

func TestPagesAreNewestFirstWithoutGapOrRepeat(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		var want []string
		for _, owner := range names(25, "owner") {
			want = append(want, intend(t, s, intent(owner)).ID)
		}
		slices.Reverse(want)
		for _, limit := range []int{1, 7, 25, 1000} {
			if got := walk(t, s, store.Filter{}, limit); !slices.Equal(got, want) {
				t.Errorf("pages of %d: %v, want %v", limit, got, want)
			}
		}
		items, next, err := s.Sandboxes(t.Context(), store.Filter{}, store.Page{})
		noError(t, err)
		if len(items) != 25 || !next.IsZero() {
			t.Errorf("default page has %d items, next %v", len(items), next)
		}
	})
}

func TestPagesUnderWritesKeepWhatStays(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		var stay, go_ []string
		for i, owner := range names(60, "old") {
			id := intend(t, s, intent(owner)).ID
			if i%3 == 0 {
				go_ = append(go_, id)
			} else {
				stay = append(stay, id)
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for i, id := range go_ {
				if _, err := s.Delete(t.Context(), id, false, "", ""); err != nil {
					t.Error(err)
				}
				if _, _, err := s.RequestSandbox(t.Context(), intent(fmt.Sprint("new", i))); err != nil {
					t.Error(err)
				}
			}
		})
		for range 5 {
			got := walk(t, s, store.Filter{}, 4)
			seen := map[string]int{}
			for _, id := range got {
				seen[id]++
			}
			for _, id := range stay {
				if seen[id] != 1 {
					t.Errorf("%s, there all the time, was listed %d times", id, seen[id])
				}
			}
			for id, n := range seen {
				if n > 1 {
					t.Errorf("%s was listed %d times", id, n)
				}
			}
		}
		wg.Wait()
	})
}

func TestFiltersNarrowTheList(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s := db.In(acme)
		make := func(owner string, change func(*store.SandboxRequest)) string {
			in := intent(owner)
			change(&in)
			return intend(t, s, in).ID
		}
		plain := make("plain", func(*store.SandboxRequest) {})
		project := make("project", func(in *store.SandboxRequest) { in.Kind = sandbox.OwnerProject })
		github := make("github", func(in *store.SandboxRequest) { in.Spec.Template = "github" })
		local := make("local", func(in *store.SandboxRequest) { in.Spec.Driver = "local" })
		creating := make("creating", func(*store.SandboxRequest) {})
		commit(t, db, lease(t, db, creating, "holder").Lease, sandbox.Change{Event: sandbox.EventBegin})
		gone := make("gone", func(*store.SandboxRequest) {})
		_, err := s.Delete(t.Context(), gone, false, "", "")
		noError(t, err)
		for _, c := range []struct {
			name   string
			filter store.Filter
			want   []string
		}{
			{"none", store.Filter{}, []string{creating, local, github, project, plain}},
			{"only tombstones", store.Filter{Deleted: true}, []string{gone}},
			{"with tombstones", store.Filter{IncludeDeleted: true}, []string{gone, creating, local, github, project, plain}},
			{"state", store.Filter{State: sandbox.Creating}, []string{creating}},
			{"states", store.Filter{States: []sandbox.State{sandbox.Pending, sandbox.Creating}}, []string{creating, local, github, project, plain}},
			{"a state twice", store.Filter{States: []sandbox.State{sandbox.Creating, sandbox.Creating}}, []string{creating}},
			{"states with tombstones", store.Filter{States: []sandbox.State{sandbox.Pending, sandbox.Failed}, IncludeDeleted: true}, []string{gone, local, github, project, plain}},
			{"states and more", store.Filter{States: []sandbox.State{sandbox.Pending, sandbox.Creating}, Driver: "fake", Template: "default"}, []string{creating, project, plain}},
			{"states that nobody is in", store.Filter{States: []sandbox.State{sandbox.Failed, "'"}}, nil},
			{"owner kind", store.Filter{OwnerKind: sandbox.OwnerProject}, []string{project}},
			{"template", store.Filter{Template: "github"}, []string{github}},
			{"driver", store.Filter{Driver: "local"}, []string{local}},
			{"all of them", store.Filter{State: sandbox.Pending, OwnerKind: sandbox.OwnerConversation, Template: "default", Driver: "fake"}, []string{plain}},
			{"nothing", store.Filter{State: sandbox.Failed}, nil},
		} {
			if got := walk(t, s, c.filter, 1); !slices.Equal(got, c.want) {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
		}
	})
}
