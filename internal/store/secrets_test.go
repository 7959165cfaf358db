package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
)

const secretCanary = "canary-9f1c3b7e"

// openWith opens the database as a server with the secrets does.
func (h harness) openWith(t *testing.T, fingerprints ...string) (*store.DB, error) {
	t.Helper()
	db, err := store.Open(t.Context(), h.opts)
	noError(t, err)
	err = db.WithSchemaLock(t.Context(), func() error { return db.Secrets().Use(t.Context(), storetest.Ring(fingerprints...)) })
	if err != nil {
		noError(t, db.Close())
		return nil, err
	}
	t.Cleanup(func() { _ = db.Close() })
	return db, nil
}

func (h harness) mustOpenWith(t *testing.T, fingerprints ...string) *store.DB {
	t.Helper()
	db, err := h.openWith(t, fingerprints...)
	noError(t, err)
	return db
}

// runSecrets does in the background what a server does.
func runSecrets(t *testing.T, db *store.DB) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		db.Secrets().Run(ctx)
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// secretive are rows with a value to encrypt each.
type secretive struct{ sandbox, conversation, agent, secret string }

// secretRows makes a row of each kind with the canary in it.
func secretRows(t *testing.T, db *store.DB, name string) secretive {
	t.Helper()
	env := map[string]string{"TOKEN": secretCanary + name}
	in := intent(name)
	in.Spec.Env = env
	noError(t, db.Tenants().Ensure(t.Context(), acme, "Acme"))
	s := db.In(acme)
	sb := intend(t, s, in)
	c, _, err := s.CreateConversation(t.Context(), store.Conversation{Env: env})
	noError(t, err)
	a, err := s.Agents().Create(t.Context(), store.Agent{Name: name, Overrides: json.RawMessage(`{"env":{"TOKEN":"` + secretCanary + name + `"}}`)})
	noError(t, err)
	noError(t, s.Requests().Finish(t.Context(), claim(t, s, claimOf(name), store.ClaimFresh),
		store.Answer{Status: 201, Header: map[string][]string{"Location": {"/x"}}, Body: []byte(secretCanary + name)}))
	own, err := s.Secrets().Set(t.Context(), "TOKEN_"+name, secretCanary+name)
	noError(t, err)
	return secretive{sb.ID, c.ID, a.ID, own.Name}
}

// check reads the values of every row.
func (r secretive) check(t *testing.T, db *store.DB, name string) {
	t.Helper()
	s, want := db.In(acme), secretCanary+name
	sb, err := s.ByID(t.Context(), r.sandbox)
	noError(t, err)
	c, err := s.Conversation(t.Context(), r.conversation)
	noError(t, err)
	a, err := s.Agents().Get(t.Context(), r.agent)
	noError(t, err)
	values, err := s.Secrets().Values(t.Context(), []string{r.secret, "NONE"})
	noError(t, err)
	if !maps.Equal(values, map[string]string{r.secret: want}) {
		t.Errorf("read back: %v", values)
	}
	answer := claim(t, s, claimOf(name), store.ClaimDone).Answer
	if sb.Spec.Env["TOKEN"] != want || c.Env["TOKEN"] != want || !bytes.Contains(a.Overrides, []byte(want)) ||
		string(answer.Body) != want || answer.Header["Location"][0] != "/x" {
		t.Errorf("read back: %v (%v), %v (%v), %s (%v), %s", sb.Spec.Env, sb.EnvProblem, c.Env, c.EnvProblem, a.Overrides, a.Problem, answer.Body)
	}
}

// stored is every text of the five tables as the database has it.
func stored(t *testing.T, h harness) string {
	t.Helper()
	var all strings.Builder
	raw, body := h.rawDB(t), `cast(coalesce(body, '') as text)`
	defer raw.Close()
	if h.engine == "postgres" {
		body = `encode(coalesce(body, ''), 'escape')`
	}
	for _, query := range []string{
		`select env, sealed from sandboxes`, `select env, sealed from conversations`,
		`select overrides, sealed from agents`, `select header, sealed from idempotency_keys`,
		`select ` + body + `, sealed from idempotency_keys`, `select value, sealed from tenant_secrets`,
	} {
		rows, err := raw.Query(query)
		noError(t, err)
		for rows.Next() {
			var value, sealed string
			noError(t, rows.Scan(&value, &sealed))
			fmt.Fprintln(&all, value, sealed)
		}
		noError(t, rows.Err())
	}
	return all.String()
}

// wantNoCanary looks for the canary in what the database stores, on SQLite in its files as they are.
func wantNoCanary(t *testing.T, h harness) {
	t.Helper()
	if text := stored(t, h); strings.Contains(text, secretCanary) {
		t.Errorf("the database stores the canary:\n%s", text)
	}
	if h.engine != "sqlite" {
		return
	}
	files, err := filepath.Glob(filepath.Join(h.opts.DataDir, "berth.db*"))
	noError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		noError(t, err)
		if at := bytes.Index(data, []byte(secretCanary)); at >= 0 {
			t.Errorf("%s holds the canary at %d: %q", filepath.Base(file), at, data[max(0, at-40):min(len(data), at+40)])
		}
	}
}

func TestValuesAreEncryptedInTheDatabase(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		db := h.mustOpenWith(t, "one")
		rows := secretRows(t, db, "a")
		rows.check(t, db, "a")
		wantNoCanary(t, h)
		state, err := db.Secrets().State(t.Context())
		noError(t, err)
		if state.Writes != "one" || !maps.Equal(state.Values, map[string]int64{"one": 5}) {
			t.Errorf("state: %+v", state)
		}
	})
}

// An upgrade finds rows in plain text. They are encrypted, and nothing of them stays in SQLite's file or its log.
func TestPlainTextOfBeforeIsEncrypted(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		db := h.mustOpenWith(t, "one")
		const many = 250
		env := `{"TOKEN":"` + secretCanary + `a","LONG":"` + strings.Repeat("x", 9000) + secretCanary + `"}`
		for i := range many {
			intend(t, db.In(acme), intent(fmt.Sprint("plain-", i)))
		}
		rows := secretRows(t, db, "a")
		raw := h.rawDB(t)
		for _, statement := range []string{
			`update sandboxes set sealed = '', env = '` + env + `'`, `update conversations set sealed = '', env = '` + env + `'`,
			`update tenant_secrets set sealed = '', value = '"` + secretCanary + `a"'`,
			`update agents set sealed = '', overrides = '{"env":` + env + `}'`,
			`update idempotency_keys set sealed = '', header = '{"Location":["/x"]}', body = cast('` + secretCanary + `a' as ` + map[string]string{"sqlite": "blob", "postgres": "bytea"}[h.engine] + `)`,
		} {
			_, err := raw.Exec(statement)
			noError(t, err)
		}
		rows.check(t, db, "a") // plain text is read as it is
		noError(t, raw.Close())
		noError(t, db.Close())
		db = h.mustOpenWith(t, "one")
		runSecrets(t, db)
		testkit.Eventually(t, time.Minute, func() error {
			used, err := db.Secrets().CountValues(t.Context())
			if err == nil && !maps.Equal(used, map[string]int64{"one": many + 5}) {
				err = fmt.Errorf("values by secret: %v", used)
			}
			return err
		})
		rows.check(t, db, "a")
		wantNoCanary(t, h)
		if state, err := db.Secrets().State(t.Context()); err != nil || state.Unclean {
			t.Errorf("state: %+v, %v", state, err)
		}
	})
}

// Servers of before cannot read encrypted values. While one may run, values are written as it wrote them.
func TestValuesStayReadableForServersOfBefore(t *testing.T) {
	h := harness{"postgres", store.Options{DatabaseURL: migrated.New(t).URL, LeaseTTL: long}}
	before, err := store.Open(t.Context(), h.opts)
	noError(t, err)
	defer before.Close()
	_, err = before.Hosts().RenewHost(t.Context(), "machine", "", time.Now())
	noError(t, err)
	db := h.mustOpenWith(t, "one")
	rows := secretRows(t, db, "a")
	rows.check(t, before, "a")
	if text := stored(t, h); strings.Contains(text, "sealed:") {
		t.Errorf("values are encrypted while a server of before runs:\n%s", text)
	}
	raw := h.rawDB(t) // a minute later
	_, err = raw.Exec(`update settings set value = '0' where name = 'secret_from'`)
	noError(t, err)
	noError(t, raw.Close())
	db = h.mustOpenWith(t, "one")
	runSecrets(t, db)
	testkit.Eventually(t, time.Minute, func() error {
		used, err := db.Secrets().CountValues(t.Context())
		if err == nil && used[""] > 0 {
			err = fmt.Errorf("values by secret: %v", used)
		}
		return err
	})
	rows.check(t, db, "a")
	wantNoCanary(t, h)
}

func TestServerWithAnotherSecretIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		noError(t, h.mustOpenWith(t, "one").Close()) // nothing is encrypted yet
		_, err := h.openWith(t, "two")
		wantCode(t, err, api.CodeSecretMismatch)
		if !strings.Contains(err.Error(), "secret one") || !strings.Contains(err.Error(), "has two") {
			t.Errorf("the error names the secrets: %v", err)
		}
		db := h.mustOpenWith(t, "one")
		rows := secretRows(t, db, "a")
		noError(t, db.Close())
		_, err = h.openWith(t, "two")
		wantCode(t, err, api.CodeSecretMismatch)
		rows.check(t, h.mustOpenWith(t, "one"), "a")
	})
}

func TestSecretIsReplaced(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		db := h.mustOpenWith(t, "old")
		rows := secretRows(t, db, "a")
		noError(t, db.Close())
		db = h.mustOpenWith(t, "new", "old")
		stop := runSecrets(t, db)
		testkit.Eventually(t, time.Minute, func() error {
			state, err := db.Secrets().State(t.Context())
			if err == nil && !slices.Equal(state.Unneeded(), []string{"old"}) {
				err = fmt.Errorf("state: %+v", state)
			}
			return err
		})
		rows.check(t, db, "a")
		stop()
		noError(t, db.Close())
		_, err := h.openWith(t, "old")
		wantCode(t, err, api.CodeSecretMismatch)
		rows.check(t, h.mustOpenWith(t, "new"), "a")
	})
}

// The old secret is removed while values still need it: the server does not start, and nothing is lost.
func TestSecretRemovedTooEarly(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		db := h.mustOpenWith(t, "old")
		rows := secretRows(t, db, "a")
		noError(t, db.Close())
		raw := h.rawDB(t) // as if every value but those of before had been written with the new one
		_, err := raw.Exec(`update settings set value = 'new' where name = 'secret'`)
		noError(t, err)
		noError(t, raw.Close())
		_, err = h.openWith(t, "new")
		wantCode(t, err, api.CodeSecretMismatch)
		if !strings.Contains(err.Error(), "5 stored values") || !strings.Contains(err.Error(), "secret old") {
			t.Errorf("the error says what is needed: %v", err)
		}
		rows.check(t, h.mustOpenWith(t, "new", "old"), "a")
	})
}

// Servers get the new secret one after the other. It is used once all that run know it, so that each reads what
// the others write at all times.
func TestNewSecretWaitsForEveryServer(t *testing.T) {
	h := harness{"postgres", store.Options{DatabaseURL: migrated.New(t).URL, LeaseTTL: long}}
	a := h.mustOpenWith(t, "old")
	stopA := runSecrets(t, a)
	secretRows(t, a, "by-a").check(t, a, "by-a")
	b := h.mustOpenWith(t, "new", "old")
	stopB := runSecrets(t, b)
	secretRows(t, b, "by-b").check(t, a, "by-b")
	state, err := b.Secrets().State(t.Context())
	noError(t, err)
	if state.Writes != "old" || len(state.Waiting) != 1 || state.Unneeded() != nil {
		t.Errorf("beside a server that does not know the new secret: %+v", state)
	}
	_, err = h.openWith(t, "new")
	wantCode(t, err, api.CodeSecretMismatch)
	stopA()
	noError(t, a.Close())
	testkit.Eventually(t, time.Minute, func() error {
		state, err := b.Secrets().State(t.Context())
		if err == nil && !slices.Equal(state.Unneeded(), []string{"old"}) {
			err = fmt.Errorf("state: %+v", state)
		}
		return err
	})
	_, err = h.openWith(t, "old")
	wantCode(t, err, api.CodeSecretMismatch)
	c := h.mustOpenWith(t, "new")
	secretRows(t, b, "later").check(t, c, "later")
	secretRows(t, c, "last").check(t, b, "last")
	stopB()
}

// A server was paused so long that the others went on without it. It neither writes with its old secret nor counts
// as ready.
func TestServerThatMissedTheChangeOfTheSecret(t *testing.T) {
	h := harness{"postgres", store.Options{DatabaseURL: migrated.New(t).URL, LeaseTTL: long}}
	a := h.mustOpenWith(t, "old")
	raw := h.rawDB(t)
	_, err := raw.Exec(`update servers set seen_at = seen_at - interval '2 minutes'`)
	noError(t, err)
	noError(t, raw.Close())
	b := h.mustOpenWith(t, "new", "old")
	rows := secretRows(t, b, "a")
	sb, err := a.In(acme).ByID(t.Context(), rows.sandbox)
	noError(t, err)
	if fault.CodeOf(sb.EnvProblem) != api.CodeSecretUnreadable || len(sb.Spec.Env) > 0 {
		t.Errorf("a value of the new secret: %v, %v", sb.Spec.Env, sb.EnvProblem)
	}
	runSecrets(t, a)
	testkit.Eventually(t, time.Minute, func() error {
		if err := a.Health(); fault.CodeOf(err) != api.CodeSecretMismatch {
			return fmt.Errorf("health: %v", err)
		}
		return nil
	})
	in := intent("b")
	in.Spec.Env = map[string]string{"A": "b"}
	_, _, err = a.In(acme).RequestSandbox(t.Context(), in)
	wantCode(t, err, api.CodeSecretMismatch)
}

// A value that was moved to another row is not given to that row's sandbox, and other rows are not affected.
func TestValueOfAnotherRowIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		db := h.open(t)
		in := intent("victim")
		in.Spec.Env = map[string]string{"TOKEN": secretCanary}
		victim := intend(t, db.In(acme), in)
		thief := intend(t, db.In("other"), intent("thief"))
		_, err := h.rawDB(t).Exec(`update sandboxes set env = (select env from sandboxes where id = '` + victim.ID + `') where id = '` + thief.ID + `'`)
		noError(t, err)
		sb, err := db.In("other").ByID(t.Context(), thief.ID)
		noError(t, err)
		if fault.CodeOf(sb.EnvProblem) != api.CodeSecretUnreadable || len(sb.Spec.Env) > 0 {
			t.Errorf("the other row has %v, %v", sb.Spec.Env, sb.EnvProblem)
		}
		all, _, err := db.In("other").Sandboxes(t.Context(), store.Filter{}, store.Page{})
		if err != nil || len(all) != 1 {
			t.Errorf("list: %d, %v", len(all), err)
		}
	})
}
