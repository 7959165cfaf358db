package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/seal"
)

const (
	// upgradeTime is the time that values stay unencrypted after an upgrade from a Berth that cannot decrypt. In that
	// time, servers of the old version notice the new schema and drain.
	upgradeTime = time.Minute
	// sealAgain is the interval of the search for unencrypted values that servers of the old version may have written.
	sealAgain = 10 * time.Minute
)

// Names in the table settings.
const (
	settingSecret = "secret"       // fingerprint of the secret for new values
	settingFrom   = "secret_from"  // microseconds since 1970: start of encryption
	settingScrub  = "secret_scrub" // present: SQLite's file may still contain old values
	settingLost   = "secrets_lost" // a JSON list: secrets that an operator declared lost
)

// Secrets is the state of encryption in this server.
type Secrets struct {
	db      *DB
	mu      sync.RWMutex
	ring    *seal.Ring
	writes  string    // fingerprint of the key to seal with
	from    time.Time // values are stored unencrypted until then
	renewed time.Time // last renewal of the server's row; zero if there is none (SQLite)
	refused error     // set if the database uses a secret that this server does not know
	server  string    // id of the server's row
}

// Fingerprint returns the fingerprint of the database's secret, empty if it has none yet.
func (s *Secrets) Fingerprint(ctx context.Context) (string, error) {
	text, err := s.db.settings().get(ctx, settingSecret)
	return text, s.db.fail("read the secret's fingerprint", err)
}

// settings holds values that the database keeps for itself, by name.
type settings struct{ db *DB }

// settings returns the stored settings.
func (db *DB) settings() settings { return settings{db} }

// get returns a setting of the installation; empty if it is not set.
func (s settings) get(ctx context.Context, name string) (string, error) {
	text, err := first(ctx, s.db.write, scanOne[string], `select value from settings where name = $1`, name)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return text, err
}

func (s settings) put(ctx context.Context, name, value string) error {
	_, err := s.db.write.exec(ctx, `insert into settings (name, value) values ($1, $2)
		on conflict (name) do update set value = excluded.value`, name, value)
	return err
}

// Use checks the server's secrets against the database and uses them from then on. It refuses a server that
// cannot decrypt stored values, or whose values other servers could not decrypt. The caller runs it in
// [DB.WithSchemaLock].
//
// With SQLite there is one server: it switches to the newest secret at once and encrypts all values before
// Use returns. Servers that share PostgreSQL do so in [Secrets.Run].
func (s *Secrets) Use(ctx context.Context, ring *seal.Ring) error {
	const op = "check secret"
	current, err := s.db.settings().get(ctx, settingSecret)
	if err != nil {
		return s.db.fail(op, err)
	}
	if current != "" && !ring.Has(current) {
		return otherSecret(current, ring)
	}
	if err := s.checkReadable(ctx, ring); err != nil {
		return err
	}
	if current == "" {
		current = ring.Newest()
		if err := s.recordFirst(ctx, current); err != nil {
			return s.db.fail(op, err)
		}
	}
	from, err := s.sealFrom(ctx)
	if err != nil {
		return s.db.fail(op, err)
	}
	s.mu.Lock()
	s.ring, s.writes, s.from = ring, current, from
	s.mu.Unlock()
	if s.db.lock == nil {
		return s.db.fail("record server", s.join(ctx))
	}
	if err := s.promote(ctx); err != nil {
		return s.db.fail(op, err)
	}
	if _, err := s.sealRest(ctx); err != nil {
		return s.db.fail("encrypt stored values", err)
	}
	return s.scrub(ctx)
}

// otherSecret returns the error for a server that does not have the database's secret.
func otherSecret(current string, ring *seal.Ring) error {
	e := fault.Errorf("check secret", api.CodeSecretMismatch, "the database is encrypted with the secret %s; this server has %s",
		current, strings.Join(ring.Fingerprints(), ", "))
	e.Hint = "Give every server the same secret_key (BERTH_SECRET_KEY): that of the other servers, or of the data directory's secret.key that the database was made with. " +
		"To replace a secret, put the old one into secret_key_previous (BERTH_SECRET_KEY_PREVIOUS)."
	return e
}

// checkReadable returns an error if the secrets cannot decrypt stored values or the values of a running server.
func (s *Secrets) checkReadable(ctx context.Context, ring *seal.Ring) error {
	const op = "check secret"
	used, err := s.CountValues(ctx)
	if err != nil {
		return err
	}
	lost, err := s.lost(ctx)
	if err != nil {
		return s.db.fail(op, err)
	}
	for _, fingerprint := range slices.Sorted(maps.Keys(used)) {
		if fingerprint == "" || ring.Has(fingerprint) || slices.Contains(lost, fingerprint) {
			continue
		}
		return removedSecret(fmt.Sprintf("%d stored values are encrypted with the secret %s, which this server does not have", used[fingerprint], fingerprint))
	}
	servers, err := s.liveServers(ctx)
	if err != nil {
		return s.db.fail(op, err)
	}
	for _, other := range servers {
		if !ring.Has(other.writes) {
			return removedSecret(fmt.Sprintf("the server %s encrypts with the secret %s, which this server does not have", other.name, other.writes))
		}
	}
	return nil
}

func removedSecret(what string) error {
	e := fault.Errorf("check secret", api.CodeSecretMismatch, "%s", what)
	e.Hint = "Put that secret (back) into secret_key_previous (BERTH_SECRET_KEY_PREVIOUS). It can be removed once /readyz and 'berth doctor' say that nothing needs it."
	return e
}

// recordFirst records the first secret of a database and the time at which encryption starts. That is now, unless
// servers that cannot decrypt may be running.
func (s *Secrets) recordFirst(ctx context.Context, fingerprint string) error {
	wait := int64(0)
	if s.db.lock == nil {
		others, err := first(ctx, s.db.write, scanOne[bool], `select exists (select 1 from hosts where seen_at > {now-$1})`, HostAlive.Microseconds())
		if err != nil {
			return err
		}
		if others {
			wait = upgradeTime.Microseconds()
		}
	}
	now, err := s.db.clock(ctx)
	if err != nil {
		return err
	}
	_, err = s.db.write.exec(ctx, `insert into settings (name, value) values ($1, $2) on conflict (name) do nothing`, settingFrom, fmt.Sprint(now.UnixMicro()+wait))
	if err != nil {
		return err
	}
	return s.db.settings().put(ctx, settingSecret, fingerprint)
}

func (db *DB) clock(ctx context.Context) (now time.Time, err error) {
	_, err = first(ctx, db.write, func(row scanner) (any, error) { return nil, row.Scan(instant{&now}) }, `select {now}`)
	return now, err
}

// sealFrom returns the time at which encryption starts, by this process's clock.
func (s *Secrets) sealFrom(ctx context.Context) (time.Time, error) {
	text, err := s.db.settings().get(ctx, settingFrom)
	if err != nil || text == "" {
		return time.Time{}, err
	}
	now, err := s.db.clock(ctx)
	if err != nil {
		return time.Time{}, err
	}
	var micros int64
	if _, err := fmt.Sscan(text, &micros); err != nil {
		return time.Time{}, fmt.Errorf("read setting %s: %w", settingFrom, err)
	}
	return time.Now().Add(time.UnixMicro(micros).Sub(now)), nil
}

func (s *Secrets) lost(ctx context.Context) (lost []string, err error) {
	text, err := s.db.settings().get(ctx, settingLost)
	if err != nil || text == "" {
		return nil, err
	}
	return lost, json.Unmarshal([]byte(text), &lost)
}

// promote makes this server's newest secret the secret for all new values, if all running servers know it. The caller
// runs it in [DB.WithSchemaLock], so that no server starts at the same time.
func (s *Secrets) promote(ctx context.Context) error {
	s.mu.RLock()
	newest, writes := s.ring.Newest(), s.writes
	s.mu.RUnlock()
	if newest == writes {
		return nil
	}
	servers, err := s.liveServers(ctx)
	if err != nil {
		return err
	}
	for _, other := range servers {
		if !slices.Contains(other.secrets, newest) {
			return nil
		}
	}
	current, err := s.db.settings().get(ctx, settingSecret)
	if err != nil || current != writes { // another server has changed it, and this server has not read it yet
		return err
	}
	if err := s.db.settings().put(ctx, settingSecret, newest); err != nil {
		return err
	}
	s.db.log.Info("values are encrypted with the new secret from now on", "secret", newest, "previous", writes)
	s.mu.Lock()
	s.writes = newest
	s.mu.Unlock()
	if s.db.lock != nil {
		return nil
	}
	return s.renew(ctx)
}

// Run renews this server's row on PostgreSQL, follows changes of the secret, and encrypts values that are not
// encrypted with the current secret, until the context ends. On SQLite it does nothing: [Secrets.Use] did all of this.
func (s *Secrets) Run(ctx context.Context) {
	if s.db.lock != nil {
		return
	}
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	var sealed time.Time // the end of the last complete run of sealRest
	with := ""           // the secret that this run used
	for {
		if err := s.db.recordScan("compare secrets", s.follow(ctx)); err != nil && ctx.Err() == nil {
			s.db.log.Warn("the server's secrets were not compared with the database", "error", err)
		}
		writes, ready := s.sealing()
		if ready && (with != writes || time.Since(sealed) > sealAgain) {
			done, err := s.sealRest(ctx)
			if err = s.db.recordScan("encrypt stored values", err); err == nil && done {
				sealed, with = time.Now(), writes
			} else if err != nil && ctx.Err() == nil {
				s.db.log.Warn("stored values were not encrypted; it is tried again", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sealing returns the secret for new values, and whether encryption has started.
func (s *Secrets) sealing() (writes string, ready bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.writes, s.ring != nil && s.refused == nil && !time.Now().Before(s.from)
}

// follow renews the server's row and switches to the secret that the database names.
func (s *Secrets) follow(ctx context.Context) error {
	current, err := s.db.settings().get(ctx, settingSecret)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.ring.Has(current) {
		s.writes, s.refused = current, nil
	} else if s.refused == nil {
		s.refused = otherSecret(current, s.ring)
		s.db.log.Error("the secret was replaced by one that this server does not know", "error", s.refused)
	}
	ahead := s.ring.Newest() != s.writes
	refused := s.refused
	s.mu.Unlock()
	s.db.health.mu.Lock()
	s.db.health.secret = refused
	s.db.health.mu.Unlock()
	if refused != nil {
		return nil // the row of this server expires, and then no change waits for it
	}
	if err := s.renew(ctx); err != nil || !ahead {
		return err
	}
	return s.db.WithSchemaLock(ctx, func() error { return s.promote(ctx) })
}

// SecretState describes the secrets in use.
type SecretState struct {
	Current string           // fingerprint of the database's secret; empty: none yet
	Writes  string           // fingerprint of this server's secret for new values
	Known   []string         // the secrets of this server, newest first
	Values  map[string]int64 // number of stored values by secret; unencrypted ones under ""
	Writing []string         // the secrets that running servers write with
	Waiting []string         // servers that do not know the newest secret: the change of the secret waits for them
	Lost    []string         // secrets that an operator declared lost
	Unclean bool             // SQLite's file may still contain old values
}

// Unneeded lists the secrets of this server that can be removed. It returns none while that is unknown.
func (s SecretState) Unneeded() (out []string) {
	if s.Values[""] > 0 || len(s.Known) == 0 || s.Writes != s.Known[0] {
		return nil
	}
	for _, fingerprint := range s.Known[1:] {
		if s.Values[fingerprint] == 0 && !slices.Contains(s.Writing, fingerprint) {
			out = append(out, fingerprint)
		}
	}
	return out
}

// State reads the state of the secrets.
func (s *Secrets) State(ctx context.Context) (state SecretState, err error) {
	const op = "read the state of the secrets"
	s.mu.RLock()
	if state.Writes = s.writes; s.ring != nil {
		state.Known = s.ring.Fingerprints()
	}
	s.mu.RUnlock()
	if state.Current, err = s.Fingerprint(ctx); err != nil {
		return state, err
	}
	if state.Values, err = s.CountValues(ctx); err != nil {
		return state, err
	}
	if state.Lost, err = s.lost(ctx); err != nil {
		return state, s.db.fail(op, err)
	}
	scrub, err := s.db.settings().get(ctx, settingScrub)
	if err != nil || len(state.Known) == 0 {
		return state, s.db.fail(op, err)
	}
	state.Unclean = scrub != ""
	servers, err := s.liveServers(ctx)
	for _, other := range servers {
		state.Writing = append(state.Writing, other.writes)
		if !slices.Contains(other.secrets, state.Known[0]) {
			state.Waiting = append(state.Waiting, other.name)
		}
	}
	return state, s.db.fail(op, err)
}

// Forget records that a secret is lost. Values encrypted with it stay stored but cannot be decrypted until it
// is found; a server starts without it, with a new secret if it was the current one. A secret that a running server
// has is refused. The caller runs it in [DB.WithSchemaLock].
func (s *Secrets) Forget(ctx context.Context, fingerprint string) error {
	const op = "forget secret"
	servers, err := s.liveServers(ctx)
	if err != nil {
		return s.db.fail(op, err)
	}
	for _, other := range servers {
		if slices.Contains(other.secrets, fingerprint) {
			e := fault.Errorf(op, api.CodeConflict, "the server %s has the secret %s: it is not lost", other.name, fingerprint)
			e.Hint = "Copy the secret from there. If that server has just ended, try again in a minute."
			return e
		}
	}
	state, err := s.State(ctx)
	if err != nil {
		return err
	}
	if state.Values[fingerprint] == 0 && state.Current != fingerprint {
		return fault.Errorf(op, api.CodeNotFound, "nothing is encrypted with a secret %q", fingerprint)
	}
	if !slices.Contains(state.Lost, fingerprint) {
		if err := s.db.settings().put(ctx, settingLost, listArg(append(state.Lost, fingerprint))); err != nil {
			return s.db.fail(op, err)
		}
	}
	_, err = s.db.write.exec(ctx, `delete from settings where name = $1 and value = $2`, settingSecret, fingerprint)
	return s.db.fail(op, err)
}

// ReadSecrets connects to a database and reads the state of its secrets. It changes nothing.
func ReadSecrets(ctx context.Context, opts Options) (state SecretState, err error) {
	db, err := connect(ctx, opts)
	if err != nil {
		return state, err
	}
	defer db.Close()
	if err := db.migrator().check(ctx); err != nil {
		return state, err
	}
	return db.Secrets().State(ctx)
}
