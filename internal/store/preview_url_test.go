package store_test

import (
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
)

func TestPreviewURLs(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		s, rival := tenants(t, db)
		key, err := s.Keys().Create(t.Context(), store.Key{Label: "mine", Scopes: []string{"write"}}, hashOf("mine"))
		noError(t, err)
		create := func(sandbox string, port uint16, lifetime time.Duration) store.PreviewURL {
			t.Helper()
			u, err := s.Keys().URLs().Create(t.Context(), store.PreviewURL{Sandbox: sandbox, Port: port, Key: key}, lifetime)
			noError(t, err)
			return u
		}
		read := func(id string) store.PreviewURL {
			t.Helper()
			found, err := db.APIKeys().URLs().ByID(t.Context(), []string{store.NewID(), id})
			noError(t, err)
			if len(found) != 1 {
				t.Fatalf("found %+v", found)
			}
			return found[0]
		}
		one, two, other := create("b1", 3000, time.Hour), create("b1", 3000, time.Hour), create("b1", 8000, time.Hour)
		got := read(one.ID)
		if got.Sandbox != "b1" || got.Port != 3000 || got.Key.Label != "mine" || got.Key.Tenant != got.Tenant || !got.Live(time.Now()) || got.Live(time.Now().Add(time.Hour)) {
			t.Errorf("%+v", got)
		}
		if _, err := s.Keys().URLs().Create(t.Context(), one, time.Hour); fault.CodeOf(err) != api.CodeConflict {
			t.Errorf("again: %v", err)
		}
		revoked := func(scope store.Scope, id string, want int) {
			t.Helper()
			ids, err := scope.Keys().URLs().Revoke(t.Context(), "b1", 3000, id)
			if noError(t, err); len(ids) != want {
				t.Errorf("revoked %v, want %d", ids, want)
			}
		}
		revoked(rival, "", 0)
		revoked(s, other.ID, 0) // of another port
		revoked(s, two.ID, 1)
		if !read(one.ID).Live(time.Now()) || read(two.ID).Live(time.Now()) {
			t.Error("another URL was revoked")
		}
		revoked(s, "", 1)
		if read(one.ID).Live(time.Now()) || !read(other.ID).Live(time.Now()) {
			t.Error("revoking those of a port revoked others")
		}
		_, err = s.Keys().Revoke(t.Context(), key.ID)
		if noError(t, err); read(other.ID).Live(time.Now()) {
			t.Error("it outlives its key")
		}
		old := create("b1", 3000, -48*time.Hour)
		create("b1", 3000, time.Hour)
		if found, err := db.APIKeys().URLs().ByID(t.Context(), []string{old.ID}); err != nil || len(found) != 0 {
			t.Errorf("an old one is kept: %+v, %v", found, err)
		}
	})
}
