package doctor

import (
	"path/filepath"
	"testing"

	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/store"
)

func TestRootSecretIsComparedWithTheDatabase(t *testing.T) {
	s := subject(t)
	expect(t, s, "secret", OK, "no database needs one yet")
	db, err := store.Open(t.Context(), store.Options{DataDir: s.Config.DataDir})
	if err != nil {
		t.Fatal(err)
	}
	made, err := auth.UseSecret(t.Context(), db, auth.SecretSource{DataDir: s.Config.DataDir})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, s, "secret", OK, "the running server has checked it")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "secret", OK, "encrypted with "+made.Fingerprint())
	s.Config.SecretKey = "another secret altogether"
	expect(t, s, "secret", Failed, "the secret "+made.Fingerprint()+", which a server would not have")
	s.Config.SecretKeyPrevious = []config.Secret{"short"}
	expect(t, s, "secret", Failed, "at least 16")
	s.Config.SecretKey, s.Config.SecretKeyPrevious = "", nil
	path := filepath.Join(s.Config.DataDir, auth.SecretFile)
	write(t, path, "", 0o600)
	expect(t, s, "secret", Failed, "is empty")
}

func TestSecretsThatValuesNeed(t *testing.T) {
	for _, c := range []struct {
		known  []string
		state  store.SecretState
		status string
	}{
		{nil, store.SecretState{}, OK},
		{[]string{"new", "old"}, store.SecretState{Current: "new", Values: map[string]int64{"new": 1, "old": 1}}, OK},
		{[]string{"new", "old"}, store.SecretState{Current: "new", Values: map[string]int64{"new": 1}}, OK},
		{[]string{"new"}, store.SecretState{Current: "new", Values: map[string]int64{"old": 1}}, Failed},
		{[]string{"new"}, store.SecretState{Current: "new", Values: map[string]int64{"old": 1}, Lost: []string{"old"}}, OK},
		{[]string{"new"}, store.SecretState{Current: "new", Values: map[string]int64{"": 2}}, Warning},
		{[]string{"new"}, store.SecretState{Current: "old"}, Failed},
	} {
		if got := secretFinding(c.known, c.state); got.status != c.status {
			t.Errorf("%v of %+v: %+v", c.known, c.state, got)
		}
	}
}
