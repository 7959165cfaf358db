package app_test

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/app"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/pgtest"
)

// canaries are secrets that a server is given in every way there is.
var canaries = map[string]string{
	"sandbox": "canary-of-the-sandbox-71b2", "project": "canary-of-the-project-8c03", "conversation": "canary-of-the-conversation-5d94",
	"agent": "canary-of-the-agent-2e45", "template": "canary-of-the-template-9f56", "webhook": hookSecret, "key": "canary-of-the-root-secret-4a17",
	"tenant": "canary-of-the-tenant-secret-6c28", "rotated": "canary-of-the-next-value-3d17",
}

// Secrets that are given to a server are nowhere in its database, its write-ahead log and its backups.
func TestDatabaseHoldsNoSecret(t *testing.T) {
	testkit.Proves(t, "E5")
	t.Parallel()
	onLocal(t, func(t *testing.T, env []string) {
		hooked := newCalled(t)
		env = withConfig(t, append(env, "BERTH_SECRET_KEY="+canaries["key"]), `
[templates.hooked]
extends = "demo"
env = {FROM_TEMPLATE = "`+canaries["template"]+`"}
[[templates.hooked.hooks]]
phase = "cold_start"
command = "test -n \"$FROM_TEMPLATE\""
[[templates.hooked.hooks]]
phase = "message"
url = "`+hooked.URL+`"
secret = "`+canaries["webhook"]+`"
allow_private = true
`)
		p := start(t, env)
		c := p.client(t)
		b := make1(t, c, api.CreateSandbox{Name: "box", Template: "hooked", Env: map[string]string{"TOKEN": canaries["sandbox"]}})
		b.says("printf %s $TOKEN", canaries["sandbox"])
		if _, _, err := c.Projects.Ensure(t.Context(), "p", api.EnsureProject{Env: map[string]string{"TOKEN": canaries["project"]}}); err != nil {
			t.Fatal(err)
		}
		agent, err := c.Agents.Create(t.Context(), api.PutAgent{Name: "a", Template: "hooked", Overrides: json.RawMessage(`{"env":{"TOKEN":"` + canaries["agent"] + `"}}`)})
		if err != nil {
			t.Fatal(err)
		}
		conv, _, err := c.Conversations.Create(t.Context(), api.CreateConversation{AgentID: agent.ID, Env: map[string]string{"OWN": canaries["conversation"]}})
		if err != nil {
			t.Fatal(err)
		}
		prompted(t, c, conv.ID, "run test -n \"$OWN\" && test -n \"$TOKEN\" && echo both > both")
		hooked.has(t, hook.OnMessage, 2)
		if conv, err = c.Conversations.Get(t.Context(), conv.ID); err != nil {
			t.Fatal(err)
		}
		res, err := c.Sandboxes.Exec(t.Context(), conv.SandboxID, api.Exec{Command: api.Shell("cat both")})
		if err != nil || res.Stdout != "both\n" {
			t.Errorf("the agent has the variables: %+v, %v", res, err)
		}
		wantNoCanaries(t, env, "while the server runs")
		if err := p.end(t); err != nil {
			t.Error(err)
		}
		wantNoCanaries(t, env, "after its end")
		again := box{t, start(t, env).client(t), "box"}
		again.says("printf %s $TOKEN", canaries["sandbox"])
	})
}

// wantNoCanaries looks for the secrets in the database as a thief of its files or of a backup would find it.
func wantNoCanaries(t *testing.T, env []string, when string) {
	t.Helper()
	places := map[string][]byte{}
	if url := value(env, "DATABASE_URL"); url != "" {
		places["pg_dump"] = pgtest.Dump(t, url)
	} else {
		path := filepath.Join(value(env, "BERTH_DATA_DIR"), "berth.db")
		backup := filepath.Join(t.TempDir(), "backup.db")
		db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(60000)")
		if err == nil {
			_, err = db.Exec(`vacuum into '` + backup + `'`)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = db.Close()
		files, _ := filepath.Glob(path + "*")
		for _, file := range append(files, backup) {
			if places[filepath.Base(file)], err = os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	size := 0
	for place, data := range places {
		size += len(data)
		for name, canary := range canaries {
			for _, form := range []string{canary, hex.EncodeToString([]byte(canary)), base64.StdEncoding.EncodeToString([]byte(canary))[:24]} {
				if at := bytes.Index(data, []byte(form)); at >= 0 {
					t.Errorf("%s: the canary of the %s is in %s: %q", when, name, place, data[max(0, at-100):min(len(data), at+100)])
				}
			}
		}
	}
	if size < 10_000 {
		t.Errorf("%s: the test looked at %d bytes", when, size)
	}
}

// A data directory of before has variables in plain text; after the upgrade its files have none.
func TestUpgradeEncryptsWhatIsThere(t *testing.T) {
	t.Parallel()
	env := fresh(t)
	p := start(t, env)
	make1(t, p.client(t), api.CreateSandbox{Name: "box", Env: map[string]string{"TOKEN": "soon replaced"}})
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(value(env, "BERTH_DATA_DIR"), "berth.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`update sandboxes set sealed = '', env = '{"TOKEN":"` + canaries["sandbox"] + `"}'`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	p = start(t, env)
	wantNoCanaries(t, env, "after the upgrade")
	made, err := p.client(t).Sandboxes.Get(t.Context(), "box")
	if err != nil || len(made.Env) != 1 || made.Env[0] != "TOKEN" {
		t.Errorf("%v, %v", made.Env, err)
	}
}

// A server whose secret is not the database's says so and does not start; nothing is changed.
func TestServerIsRefusedWithoutTheSecret(t *testing.T) {
	testkit.Proves(t, "X2")
	t.Parallel()
	onBoth(t, func(t *testing.T, env []string) {
		p := start(t, env)
		make1(t, p.client(t), api.CreateSandbox{Name: "box", Env: map[string]string{"TOKEN": "x"}})
		if err := p.end(t); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(value(env, "BERTH_DATA_DIR"), "secret.key")
		kept, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		wantWords(t, refused(t, env), "secret.key is missing", "Restore the file from a backup", "BERTH_SECRET_KEY")
		wantWords(t, refused(t, append(env, "BERTH_SECRET_KEY=another-secret-of-another-server")), "is encrypted with the secret", "secret_key_previous")
		if _, err := os.Stat(file); err == nil {
			t.Error("a refused start made another secret")
		}
		old := strings.TrimSpace(string(kept))
		// The old one is known: a new one may take its place.
		p = start(t, append(env, "BERTH_SECRET_KEY_PREVIOUS="+old))
		testkit.Eventually(t, time.Minute, func() error {
			for _, c := range p.ready(t).Checks {
				if c.Name == "secret" && strings.Contains(c.Detail, "no longer needed in secret_key_previous") {
					return nil
				}
			}
			return fmt.Errorf("readiness: %+v", p.ready(t))
		})
		if err := p.end(t); err != nil {
			t.Fatal(err)
		}
		wantWords(t, refused(t, append(env, "BERTH_SECRET_KEY="+old)), "is encrypted with the secret")
		made, err := start(t, env).client(t).Sandboxes.Get(t.Context(), "box")
		if err != nil || len(made.Env) != 1 {
			t.Errorf("%v, %v", made.Env, err)
		}
	})
}

func wantWords(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%q is not in:\n%s", word, text)
		}
	}
}

// loaded is the configuration of a server's environment.
func loaded(t *testing.T, env []string) *config.Loaded {
	t.Helper()
	cfg, err := config.Load(config.Sources{Env: func(name string) (string, bool) { v := value(env, name); return v, v != "" }})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// The secret is lost for good and given up. The server starts; what needs the secret says so, does not run without
// its variables, and can be deleted. When the secret is found, all is as before.
func TestLostSecretIsGivenUp(t *testing.T) {
	t.Parallel()
	onLocal(t, func(t *testing.T, env []string) {
		p := start(t, env)
		b := make1(t, p.client(t), api.CreateSandbox{Name: "box", Env: map[string]string{"TOKEN": "x"}})
		make1(t, p.client(t), api.CreateSandbox{Name: "doomed", Env: map[string]string{"TOKEN": "y"}})
		plain := make1(t, p.client(t), api.CreateSandbox{Name: "plain"})
		b.says("echo kept > f; printf %s $TOKEN", "x")
		if _, err := p.client(t).Sandboxes.Stop(t.Context(), "box"); err != nil {
			t.Fatal(err)
		}
		if err := p.end(t); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(value(env, "BERTH_DATA_DIR"), "secret.key")
		lost := file + ".lost"
		if err := os.Rename(file, lost); err != nil {
			t.Fatal(err)
		}
		cfg := loaded(t, env)
		state, err := app.Secrets(t.Context(), cfg)
		if err != nil || state.Values[state.Current] < 2 {
			t.Fatalf("%+v, %v", state, err)
		}
		if _, err := app.ForgetSecret(t.Context(), cfg, "another"); fault.CodeOf(err) != api.CodeNotFound {
			t.Errorf("forgot a secret that there is not: %v", err)
		}
		left, err := app.ForgetSecret(t.Context(), cfg, state.Current)
		if err != nil || left.Current != "" || left.Values[state.Current] < 2 || len(left.Lost) != 1 {
			t.Fatalf("%+v, %v", left, err)
		}
		p = start(t, env)
		c := p.client(t, client.WithAttempts(1))
		plain.c = c
		plain.says("echo runs", "runs\n")
		for _, name := range []string{"box", "doomed"} {
			_, err := c.Sandboxes.Exec(t.Context(), name, api.Exec{Command: api.Shell("echo ran")})
			var pr *api.Problem
			if !errors.As(err, &pr) || pr.Code != api.CodeSecretUnreadable {
				t.Errorf("%s without its variables: %v", name, err)
			}
		}
		if err := c.Sandboxes.Delete(t.Context(), "doomed"); err != nil {
			t.Errorf("delete: %v", err)
		}
		if err := p.end(t); err != nil {
			t.Fatal(err)
		}
		old, err := os.ReadFile(lost)
		if err != nil {
			t.Fatal(err)
		}
		b.c = start(t, append(env, "BERTH_SECRET_KEY_PREVIOUS="+strings.TrimSpace(string(old)))).client(t)
		b.says("cat f; printf %s $TOKEN", "kept\nx")
	})
}
