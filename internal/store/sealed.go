package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/seal"
)

// nothing is the text of an empty JSON column. It is never encrypted.
const nothing = "{}"

// seal encrypts a text for its cell and returns it with the fingerprint of the secret. The fingerprint is empty if
// the text is stored unencrypted.
func (s *Secrets) seal(at seal.Cell, text string) (stored, fingerprint string, err error) {
	if text == nothing {
		return text, "", nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	const op = "encrypt value"
	switch {
	case s.ring == nil:
		return "", "", fault.Errorf(op, api.CodeSecretMismatch, "no secret is loaded")
	case s.refused != nil:
		return "", "", s.refused
	case !s.renewed.IsZero() && time.Since(s.renewed) > serverAlive:
		return "", "", fault.Errorf(op, api.CodeStoreUnavailable, "this server could not compare its secrets with the database for %s", time.Since(s.renewed).Round(time.Second))
	case time.Now().Before(s.from):
		return text, "", nil
	}
	stored, err = s.ring.Seal(s.writes, text, at)
	return stored, s.writes, err
}

// open returns the text that was stored in the cell. Unencrypted text of earlier versions of Berth is returned
// unchanged.
func (s *Secrets) open(at seal.Cell, stored string) (string, error) {
	if !seal.Sealed(stored) {
		return stored, nil
	}
	s.mu.RLock()
	ring := s.ring
	s.mu.RUnlock()
	what := fmt.Sprintf("the %s of %s %s", at.Column, at.Table, at.Row)
	if ring == nil {
		return "", fault.Errorf("decrypt value", api.CodeSecretUnreadable, "%s cannot be read: no secret is loaded", what)
	}
	text, err := ring.Open(stored, at)
	var unknown *seal.UnknownKeyError
	if errors.As(err, &unknown) {
		e := fault.Errorf("decrypt value", api.CodeSecretUnreadable, "%s cannot be read: %w", what, err)
		e.Hint = "Put the secret " + unknown.Fingerprint + " into secret_key_previous (BERTH_SECRET_KEY_PREVIOUS) of every server and restart them."
		return "", e
	}
	if err != nil {
		return "", fault.Errorf("decrypt value", api.CodeSecretUnreadable, "%s cannot be read: %w", what, err)
	}
	return text, nil
}

// openJSON reads a stored JSON text into v.
func (s *Secrets) openJSON(at seal.Cell, stored string, v any) error {
	text, err := s.open(at, stored)
	if err != nil {
		return err
	}
	return document{v}.read([]byte(text))
}

func sandboxEnv(tenant, id string) seal.Cell {
	return seal.Cell{Tenant: tenant, Table: "sandboxes", Row: id, Column: "env"}
}

func conversationEnv(tenant TenantID, id string) seal.Cell {
	return seal.Cell{Tenant: string(tenant), Table: "conversations", Row: id, Column: "env"}
}

func agentOverrides(tenant TenantID, id string) seal.Cell {
	return seal.Cell{Tenant: string(tenant), Table: "agents", Row: id, Column: "overrides"}
}

func keyAnswer(tenant TenantID, route, key string) seal.Cell {
	return seal.Cell{Tenant: string(tenant), Table: "idempotency_keys", Row: fmt.Sprintf("%d:%s%s", len(route), route, key), Column: "header"}
}

// storedAnswer is the plain form of an encrypted answer.
type storedAnswer struct {
	Header map[string][]string `json:"header"`
	Body   []byte              `json:"body"`
}

// sealAnswer returns the columns header, body and sealed of an answer. An encrypted answer is stored whole in header.
// A Berth without encryption finds no JSON there, so it returns an error and not the encrypted bytes.
func (s *Secrets) sealAnswer(at seal.Cell, a Answer) (header string, body []byte, fingerprint string, err error) {
	whole, err := json.Marshal(storedAnswer{a.Header, a.Body})
	if err != nil {
		return "", nil, "", err
	}
	stored, fingerprint, err := s.seal(at, string(whole))
	if err != nil || fingerprint == "" {
		return asJSON(a.Header), a.Body, "", err
	}
	return stored, nil, fingerprint, nil
}

func (s *Secrets) openAnswer(at seal.Cell, header string, a *Answer) error {
	if !seal.Sealed(header) {
		return document{&a.Header}.read([]byte(header))
	}
	var whole storedAnswer
	if err := s.openJSON(at, header, &whole); err != nil {
		return err
	}
	a.Header, a.Body = whole.Header, whole.Body
	return nil
}

// sealBatch is the number of rows encrypted between two checks of the context.
const sealBatch = 100

// sealedTable is a table with values to encrypt. A row is identified by up to three columns and updated only if it
// still has the value that was read.
type sealedTable struct {
	name    string
	holds   string // condition for a row that has a value
	columns string // tenant, two columns that identify the row ('' if one is enough), the value and the body
	order   string
	update  string // $1 to $3 identify the row, $4 is the value that was read, $5 the new value, $6 the fingerprint
	place   func(tenant TenantID, a, b string) seal.Cell
}

var sealedTables = []sealedTable{
	{
		name: "sandboxes", holds: "env <> '{}'", columns: "tenant, id, '', env, null", order: "id",
		update: `update sandboxes set env = $5, sealed = $6 where tenant = $1 and id = $2 and $3 = '' and env = $4`,
		place:  func(t TenantID, id, _ string) seal.Cell { return sandboxEnv(string(t), id) },
	},
	{
		name: "conversations", holds: "env <> '{}'", columns: "tenant, id, '', env, null", order: "id",
		update: `update conversations set env = $5, sealed = $6 where tenant = $1 and id = $2 and $3 = '' and env = $4`,
		place:  func(t TenantID, id, _ string) seal.Cell { return conversationEnv(t, id) },
	},
	{
		name: "agents", holds: "overrides <> '{}'", columns: "tenant, id, '', overrides, null", order: "id",
		update: `update agents set overrides = $5, sealed = $6 where tenant = $1 and id = $2 and $3 = '' and overrides = $4`,
		place:  func(t TenantID, id, _ string) seal.Cell { return agentOverrides(t, id) },
	},
	{
		name: "tenant_secrets", holds: "value <> '{}'", columns: "tenant, name, '', value, null", order: "tenant, name",
		update: `update tenant_secrets set value = $5, sealed = $6 where tenant = $1 and name = $2 and $3 = '' and value = $4`,
		place:  func(t TenantID, name, _ string) seal.Cell { return secretValue(t, name) },
	},
	{
		name: "slack_workspaces", holds: "tokens <> '{}'", columns: "tenant, team, '', tokens, null", order: "tenant, team",
		update: `update slack_workspaces set tokens = $5, sealed = $6 where tenant = $1 and team = $2 and $3 = '' and tokens = $4`,
		place:  func(t TenantID, team, _ string) seal.Cell { return slackTokens(t, team) },
	},
	{
		name: "idempotency_keys", holds: "status <> 0", columns: "tenant, route, idem_key, header, body", order: "tenant, route, idem_key",
		update: `update idempotency_keys set header = $5, sealed = $6, body = null where tenant = $1 and route = $2 and idem_key = $3 and header = $4`,
		place:  keyAnswer,
	},
}

// sealedRow is a row whose value is not encrypted with the current secret.
type sealedRow struct {
	tenant TenantID
	a, b   string
	value  string
	body   []byte
}

// sealRest encrypts all values that are not encrypted with the current secret, and reports whether it finished. It
// leaves values that cannot be decrypted unchanged.
func (s *Secrets) sealRest(ctx context.Context) (bool, error) {
	writes, ready := s.sealing()
	if !ready {
		return false, nil
	}
	changed, left := 0, 0
	for _, t := range sealedTables {
		n, skipped, err := s.sealTable(ctx, t, writes)
		if changed, left = changed+n, left+skipped; err != nil {
			return false, err
		}
	}
	if changed > 0 || left > 0 {
		s.db.log.Info("stored values were encrypted with the present secret", "secret", writes, "values", changed, "unreadable", left)
	}
	return true, nil
}

func (s *Secrets) sealTable(ctx context.Context, t sealedTable, writes string) (changed, skipped int, err error) {
	for {
		// The offset skips rows that cannot be decrypted: they stay at the front.
		rows, err := all(ctx, s.db.write, func(row scanner) (r sealedRow, err error) {
			err = row.Scan(&r.tenant, &r.a, &r.b, &r.value, &r.body)
			return r, err
		}, `select `+t.columns+` from `+t.name+` where `+t.holds+` and (sealed < $1 or sealed > $1) order by `+t.order+` limit $2 offset $3`,
			writes, sealBatch, skipped)
		if err != nil || len(rows) == 0 {
			return changed, skipped, err
		}
		if err := s.requestScrub(ctx); err != nil {
			return changed, skipped, err
		}
		sealed, err := s.sealRows(ctx, t, rows)
		if changed, skipped = changed+sealed, skipped+len(rows)-sealed; err != nil {
			return changed, skipped, err
		}
	}
}

// sealRows encrypts the values of the rows in one transaction and returns how many could be decrypted.
func (s *Secrets) sealRows(ctx context.Context, t sealedTable, rows []sealedRow) (sealed int, err error) {
	err = s.db.inTx(ctx, func(tx *txn) error {
		sealed = 0
		for _, r := range rows {
			at := t.place(r.tenant, r.a, r.b)
			text, readable := s.plainOf(at, r)
			if !readable {
				continue
			}
			stored, fingerprint, err := s.seal(at, text)
			if err != nil {
				return err
			}
			if _, err := tx.exec(ctx, t.update, r.tenant, r.a, r.b, r.value, stored, fingerprint); err != nil {
				return err
			}
			sealed++
		}
		return nil
	})
	return sealed, err
}

// plainOf returns the plain text of a row, and whether it could be decrypted.
func (s *Secrets) plainOf(at seal.Cell, r sealedRow) (string, bool) {
	if at.Table == "idempotency_keys" && !seal.Sealed(r.value) {
		var a Answer
		if s.openAnswer(at, r.value, &a) != nil {
			return "", false
		}
		whole, err := json.Marshal(storedAnswer{a.Header, r.body})
		return string(whole), err == nil
	}
	text, err := s.open(at, r.value)
	return text, err == nil
}

// CountValues counts the stored values by the fingerprint of their secret; unencrypted ones have an empty
// fingerprint.
func (s *Secrets) CountValues(ctx context.Context) (map[string]int64, error) {
	found := map[string]int64{}
	for _, t := range sealedTables {
		_, err := all(ctx, s.db.read, func(row scanner) (n int64, err error) {
			var fingerprint string
			err = row.Scan(&fingerprint, &n)
			found[fingerprint] += n
			return n, err
		}, `select sealed, count(*) from `+t.name+` where `+t.holds+` group by sealed`)
		if err != nil {
			return nil, s.db.fail("count encrypted values", err)
		}
	}
	return found, nil
}
