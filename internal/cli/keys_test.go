package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
)

func TestKeysCreateShowsTheSecretOnce(t *testing.T) {
	f := newFakeServer(t)
	s := newShell(t, f)
	r := s.berth("keys", "create", "ci", "--scope", "read")
	if r.code != 0 || r.out != "berth_abcdefghijkl\n" || !strings.Contains(r.err, "Key k1 with scope read") {
		t.Errorf("%+v", r)
	}
	if out := s.ok("keys", "create", "-q"); out != "berth_abcdefghijkl\n" {
		t.Errorf("-q printed %q", out)
	}
	if got := decode[api.NewKey](t, s.ok("keys", "create", "--json")); got.Secret != "berth_abcdefghijkl" || got.ID != "k3" || got.Scope != api.ScopeWrite {
		t.Errorf("--json printed %+v", got)
	}
	if f.keys[0].Label != "ci" {
		t.Errorf("made %+v", f.keys[0])
	}
}

func TestKeysCreateUnderstandsExpiry(t *testing.T) {
	f := newFakeServer(t)
	s := newShell(t, f)
	s.ok("keys", "create", "-q", "--expires", "720h")
	if left := time.Until(*f.keys[0].ExpiresAt); left < 719*time.Hour || left > 720*time.Hour {
		t.Errorf("expires in %v", left)
	}
	s.ok("keys", "create", "-q", "--expires", "2097-01-31T00:00:00+01:00")
	if got := f.keys[1].ExpiresAt.UTC().Format(time.RFC3339); got != "2097-01-30T23:00:00Z" {
		t.Errorf("expires at %s", got)
	}
	for _, bad := range []string{"-1h", "tomorrow", "2001-01-01T00:00:00Z"} {
		if r := s.berth("keys", "create", "--expires="+bad); r.code != 125 || !strings.Contains(r.err, "is no time to come") {
			t.Errorf("%s: %+v", bad, r)
		}
	}
}

func TestKeysLsShowsStatus(t *testing.T) {
	f := newFakeServer(t)
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	f.keys = []api.Key{
		{ID: "k1", Prefix: "berth_ab", Scope: "admin", CreatedAt: birth, LastUsedAt: &birth, ExpiresAt: &future},
		{ID: "k2", Prefix: "berth_cd", Scope: "read", RevokedAt: &past},
		{ID: "k3", Prefix: "berth_ef", Scope: "write", Label: "ci", ExpiresAt: &past},
	}
	s := newShell(t, f)
	lines := strings.Split(s.ok("keys", "ls"), "\n")
	for i, want := range []string{"STATUS", "active", "revoked", "expired"} {
		contains(t, fmt.Sprint("line ", i), lines[i], want)
	}
	if out := s.ok("keys", "ls", "-q"); out != "k1\nk2\nk3\n" {
		t.Errorf("-q printed %q", out)
	}
}

func TestKeysRevokeEndsEach(t *testing.T) {
	f := newFakeServer(t)
	f.keys = []api.Key{{ID: "k1"}, {ID: "k2"}}
	s := newShell(t, f)
	r := s.berth("keys", "revoke", "k1", "nosuch", "k2")
	if r.code != 125 || r.out != "revoked k1\nrevoked k2\n" || f.keys[1].RevokedAt == nil {
		t.Errorf("%+v", r)
	}
}

func TestOnlineVerbsSayWhenTheServerAddressIsBad(t *testing.T) {
	s := newShell(t, nil).with("BERTH_SERVER", "nowhere", "BERTH_API_KEY", testKey)
	for _, args := range [][]string{{"create"}, {"ls"}, {"get", "x"}, {"history", "x"}, {"rm", "x"}, {"keys", "create"}, {"keys", "ls"}, {"keys", "revoke", "x"}} {
		if r := s.berth(args...); r.code != 125 || !strings.Contains(r.err, "such as http://127.0.0.1:7070") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

func TestRefusedKeyIsSaidByEveryVerb(t *testing.T) {
	f := newFakeServer(t)
	s := newShell(t, f).with("BERTH_API_KEY", "wrong")
	for _, args := range [][]string{{"create"}, {"ls"}, {"get", "x"}, {"history", "x"}, {"rm", "x"}, {"keys", "create"}, {"keys", "ls"}, {"keys", "revoke", "x"}} {
		if r := s.berth(args...); r.code != 125 || !strings.Contains(r.err, "no valid key was sent") || r.out != "" {
			t.Errorf("%v: %+v", args, r)
		}
	}
}
