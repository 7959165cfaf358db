package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"
)

// LeaseSave is the kind of lease for the saves of a sandbox. Its id is the sandbox's.
const LeaseSave = "save"

// Save is a pending save of a workspace after a turn.
type Save struct {
	Turn        string
	Tenant      TenantID
	Sandbox     string
	Host        string          // the host that has the turn's capture; empty: none
	Incarnation int64           // the sandbox's incarnation when the turn ended
	Data        json.RawMessage // for the hooks after the save
	Saved       bool            // the save is done, and only the hooks after it are pending
	Version     string
	Attempts    int64 // number of failed attempts
	LastError   string
	CreatedAt   time.Time
	Due         bool // the time of the next attempt has come
}

const saveColumns = `saves.turn, saves.tenant, saves.sandbox, saves.host, saves.incarnation, saves.data, saves.saved, saves.version,
	saves.attempts, saves.last_error, saves.created_at, saves.due_at <= {now}`

func scanSave(row scanner) (s Save, err error) {
	var data string
	err = row.Scan(&s.Turn, &s.Tenant, &s.Sandbox, &s.Host, &s.Incarnation, &data, &s.Saved, &s.Version,
		&s.Attempts, &s.LastError, instant{&s.CreatedAt}, &s.Due)
	s.Data = json.RawMessage(data)
	return s, err
}

// addSave records that a save is pending for a turn.
func addSave(ctx context.Context, tx *txn, s Save) error {
	_, err := tx.exec(ctx, `
		insert into saves (turn, tenant, sandbox, host, incarnation, data, saved, version, attempts, last_error, created_at, due_at)
		values ($1, $2, $3, $4, $5, $6, false, '', 0, '', {now}, {now}) on conflict do nothing`,
		s.Turn, s.Tenant, s.Sandbox, s.Host, s.Incarnation, string(s.Data))
	return err
}

// Saves holds the saves that finished turns still owe.
type Saves struct{ db *DB }

// Saves returns the owed saves.
func (db *DB) Saves() Saves { return Saves{db} }

// atHome is the condition that this host, a parameter, may have the files of a save: the save's sandbox is not pinned to
// another host. That host makes the save when its server runs again. An attempt elsewhere would only delay it.
func atHome(host string) string {
	return `not exists (select 1 from sandboxes b where b.id = saves.sandbox and b.host not in ('', cast(` + host + ` as text))
		and (b.deleted_at is null or b.state <> 'terminated'))`
}

// Due returns the oldest due saves of up to limit sandboxes that this host can make. Saves whose capture is on another
// host are left to that host until they are older than patience.
func (sa Saves) Due(ctx context.Context, host string, patience time.Duration, limit int) ([]Save, error) {
	saves, err := all(ctx, sa.db.read, scanSave, `
		select `+saveColumns+` from saves
		where due_at <= {now} and (host in ('', $1) or created_at <= {now-$2}) and `+atHome("$1")+`
			and not exists (select 1 from saves other where other.sandbox = saves.sandbox
				and (other.created_at, other.turn) < (saves.created_at, saves.turn))
		order by due_at, turn limit $3`, host, patience.Microseconds(), clampLimit(limit))
	return saves, sa.db.recordScan("list saves", err)
}

// Next returns the oldest pending save of a sandbox. ok is false if there is none that this host can make.
func (sa Saves) Next(ctx context.Context, sandbox, host string) (s Save, ok bool, err error) {
	s, err = first(ctx, sa.db.read, scanSave,
		`select `+saveColumns+` from saves where sandbox = $1 and `+atHome("$2")+` order by created_at, turn limit 1`, sandbox, host)
	if errors.Is(err, sql.ErrNoRows) {
		return s, false, nil
	}
	return s, err == nil, sa.db.fail("read save", err)
}

// OwesOthers reports whether saves for other turns of the sandbox are pending.
func (sa Saves) OwesOthers(ctx context.Context, s Save) (bool, error) {
	n, err := first(ctx, sa.db.read, func(row scanner) (n int64, err error) { return n, row.Scan(&n) },
		`select count(*) from saves where sandbox = $1 and turn <> $2 and not saved`, s.Sandbox, s.Turn)
	return n > 0, sa.db.fail("look for other saves", err)
}

// eventSaved is the event of a save in a sandbox's history.
const eventSaved = "saved"

// Record records the result of a save in the turn. If the turn has already ended or there is a warning, it also
// records the save in the sandbox's history. A second call changes nothing.
func (sa Saves) Record(ctx context.Context, s Save, version string, warnings []string, reason string) error {
	return sa.db.fail("record save", sa.db.inTx(ctx, func(tx *txn) error {
		n, err := tx.exec(ctx, `update saves set saved = true, version = $2, attempts = 0, last_error = '' where turn = $1 and not saved`, s.Turn, version)
		if err != nil || n == 0 {
			return err
		}
		t, err := first(ctx, tx, scanTurn, `update turns set version = $2, saving = false where id = $1 returning `+turnColumns, s.Turn, version)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil && len(warnings) > 0 {
			_, err = tx.exec(ctx, `update turns set warnings = $2 where id = $1`, s.Turn, listArg(append(t.Warnings, warnings...)))
		}
		if err != nil || !t.Finished() && len(warnings) == 0 {
			return err
		}
		if _, err := tx.exec(ctx, `update sandboxes set changes = changes + 1 where id = $1`, s.Sandbox); err != nil {
			return err
		}
		_, err = tx.exec(ctx, `
			insert into history (sandbox, seq, at, event, from_state, to_state, want, reason, actor, generation, incarnation, instance)
			select id, changes, {now}, '`+eventSaved+`', state, state, want, cast($2 as text), 'hook', generation, incarnation, instance
			from sandboxes where id = $1`, s.Sandbox, printable(reason))
		return err
	}))
}

func scanList(row scanner) (list []string, err error) {
	err = row.Scan(document{&list})
	return list, err
}

// Retry schedules another attempt and stores the cause of the failure.
func (sa Saves) Retry(ctx context.Context, turn string, after time.Duration, cause string) error {
	_, err := sa.db.write.exec(ctx, `update saves set attempts = attempts + 1, due_at = {now+$2}, last_error = $3 where turn = $1`,
		turn, after.Microseconds(), printable(cause))
	return sa.db.fail("put save back", err)
}

// WarnTurn adds warnings to a turn.
func (sa Saves) WarnTurn(ctx context.Context, turn string, warnings []string) error {
	return sa.db.fail("record warning", sa.db.inTx(ctx, func(tx *txn) error {
		had, err := first(ctx, tx, scanList, `update turns set saving = saving where id = $1 returning warnings`, turn)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil {
			_, err = tx.exec(ctx, `update turns set warnings = $2 where id = $1`, turn, listArg(append(had, warnings...)))
		}
		return err
	}))
}

// End removes a save after its hooks have run.
func (sa Saves) End(ctx context.Context, turn string) error {
	_, err := sa.db.write.exec(ctx, `delete from saves where turn = $1`, turn)
	return sa.db.fail("end save", err)
}

// CountOwed returns the number of pending saves on all servers, and the time of the oldest.
func (sa Saves) CountOwed(ctx context.Context) (n int64, oldest time.Time, err error) {
	type owed struct {
		n      int64
		oldest time.Time
	}
	o, err := first(ctx, sa.db.read, func(row scanner) (o owed, err error) {
		err = row.Scan(&o.n, instant{&o.oldest})
		return o, err
	}, `select count(*), min(created_at) from saves where not saved`)
	return o.n, o.oldest, sa.db.recordScan("count saves", err)
}
