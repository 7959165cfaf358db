package cli

import (
	"context"
	"errors"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
)

func TestSecretsAreShownAndForgotten(t *testing.T) {
	s := newShell(t, nil)
	have := api.Secrets{Current: "aaaa", Values: map[string]int64{"aaaa": 3, "bbbb": 1}, Plain: 2, Lost: []string{"bbbb"}}
	s.deps.Secrets = func(context.Context, *config.Loaded) (api.Secrets, error) { return have, nil }
	contains(t, "status", s.ok("secret", "status"), "current: aaaa\n", "aaaa: 3 values\n", "bbbb: 1 value (declared lost: cannot be read)\n", "not encrypted yet: 2 values\n")
	if got := decode[api.Secrets](t, s.ok("secret", "status", "--json")); got.Current != "aaaa" || got.Values["bbbb"] != 1 {
		t.Errorf("--json: %+v", got)
	}
	forgot := ""
	s.deps.ForgetSecret = func(_ context.Context, _ *config.Loaded, fingerprint string) (api.Secrets, error) {
		forgot = fingerprint
		return api.Secrets{}, nil
	}
	contains(t, "forget", s.ok("secret", "forget", "--yes", "aaaa"), "current: none; the next start")
	if forgot != "aaaa" {
		t.Errorf("forgot %q", forgot)
	}
	s.deps.Secrets = func(context.Context, *config.Loaded) (api.Secrets, error) { return have, errors.New("it broke") }
	if r := s.berth("secret", "status"); r.code != 125 {
		t.Errorf("%+v", r)
	}
}
