package app_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/app"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
)

// said is what a server writes when it is started with this environment and stopped again. While it
// is up, it is asked for the path.
type said struct{ greeting, log string }

func run(t *testing.T, env []string, path string) said {
	t.Helper()
	cfg, err := config.Load(config.Sources{Env: func(name string) (string, bool) {
		v := value(env, name)
		return v, v != ""
	}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := new(logs)
	s, err := app.NewServer(t.Context(), app.Options{Config: cfg, Out: &out, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	body := get(t, "http://"+s.Addr()+path)
	stop()
	if err := errors.Join(<-ended, s.Close()); err != nil {
		t.Fatal(err)
	}
	return said{out.String(), log.String() + body}
}

func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var body bytes.Buffer
	_, _ = body.ReadFrom(res.Body)
	return body.String()
}

// unset returns the environment without the variable.
func unset(env []string, name string) (rest []string) {
	for _, kv := range env {
		if !strings.HasPrefix(kv, name+"=") {
			rest = append(rest, kv)
		}
	}
	return rest
}

// The log and the answers hide the key made at the first start on every later one, and keys that
// other servers made.
func TestKeysInAddressesAreHiddenAfterARestart(t *testing.T) {
	testkit.Proves(t, "E5")
	t.Parallel()
	env := unset(fresh(t), "BERTH_API_KEY")
	run(t, env, "/")
	kept, err := os.ReadFile(filepath.Join(value(env, "BERTH_DATA_DIR"), auth.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{strings.TrimSpace(string(kept)), auth.Generate()} {
		if log := run(t, env, "/x"+key).log; strings.Contains(log, key) || !strings.Contains(log, "/x[redacted]") {
			t.Errorf("%s is not hidden in:\n%s", key, log)
		}
	}
}

func TestGreetingSaysWhichKeyToUse(t *testing.T) {
	t.Parallel()
	given := fresh(t)
	first := unset(append(fresh(t), "DATABASE_URL="+storetest.Postgres(t), "BERTH_SECRET_KEY=one-secret-for-both-servers"), "BERTH_API_KEY")
	second := append(unset(first, "BERTH_DATA_DIR"), "BERTH_DATA_DIR="+t.TempDir())
	for _, c := range []struct {
		name       string
		env        []string
		want, lack string
	}{
		{"given", given, "export BERTH_API_KEY=…    # the key that this server was started with", testKey},
		{"made", first, "Admin key: in " + value(first, "BERTH_DATA_DIR"), "berth_"},
		{"kept", first, "Admin key: in " + value(first, "BERTH_DATA_DIR"), "export BERTH_API_KEY"},
		{"another server's", second, "this database has one already", "shown this once"},
	} {
		if got := run(t, c.env, "/").greeting; !strings.Contains(got, c.want) || strings.Contains(got, c.lack) {
			t.Errorf("%s: no %q, or %q, in:\n%s", c.name, c.want, c.lack, got)
		}
	}
}

func TestStartWarnsOfWhatIsHardlyMeant(t *testing.T) {
	t.Parallel()
	plain, open := fresh(t), fresh(t)
	shared := append(fresh(t), "DATABASE_URL="+storetest.Postgres(t))
	for dir, mode := range map[string]os.FileMode{
		value(plain, "BERTH_DATA_DIR"): 0o755, value(open, "BERTH_DATA_DIR"): 0o777, value(shared, "BERTH_DATA_DIR"): 0o700,
	} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	const wide, apart = "other users may write to ", "every server on this database must use the same directory"
	for _, c := range []struct {
		name        string
		env         []string
		wide, apart bool
	}{{"plain", plain, false, false}, {"open", open, true, false}, {"shared", shared, false, true}} {
		log := run(t, c.env, "/").log
		if strings.Contains(log, wide) != c.wide || strings.Contains(log, apart) != c.apart {
			t.Errorf("%s:\n%s", c.name, log)
		}
	}
}
