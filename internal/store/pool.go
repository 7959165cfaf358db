package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
)

// runner runs statements: a pool each on its own, a txn all in one transaction.
type runner interface {
	exec(ctx context.Context, text string, args ...any) (rows int64, err error)
	query(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

// pool is a set of connections that spells texts out for its engine.
type pool struct {
	*sql.DB
	dialect *dialect
	keeps   bool     // prepare each text once; not for drivers that do so themselves
	kept    sync.Map // text to *sql.Stmt; the number of different texts is bounded
}

func (p *pool) exec(ctx context.Context, text string, args ...any) (int64, error) {
	if !p.keeps {
		return affected(p.ExecContext(ctx, p.dialect.spell(text), p.dialect.args(text, args)...))
	}
	stmt, err := p.prepared(ctx, text)
	if err != nil {
		return 0, err
	}
	return affected(stmt.ExecContext(ctx, p.dialect.args(text, args)...))
}

func (p *pool) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if !p.keeps {
		return p.QueryContext(ctx, p.dialect.spell(text), p.dialect.args(text, args)...)
	}
	stmt, err := p.prepared(ctx, text)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, p.dialect.args(text, args)...)
}

func (p *pool) prepared(ctx context.Context, text string) (*sql.Stmt, error) {
	if stmt, ok := p.kept.Load(text); ok {
		return stmt.(*sql.Stmt), nil
	}
	stmt, err := p.PrepareContext(ctx, p.dialect.spell(text))
	if err != nil {
		return nil, err
	}
	if first, raced := p.kept.LoadOrStore(text, stmt); raced {
		return first.(*sql.Stmt), stmt.Close()
	}
	return stmt, nil
}

// txn is a transaction. It is open for a few statements only, never over a call to anything else.
type txn struct {
	*sql.Tx
	pool  *pool
	fresh []string // texts that the pool should prepare; it cannot while we have its connection
}

func (t *txn) exec(ctx context.Context, text string, args ...any) (int64, error) {
	args = t.pool.dialect.args(text, args)
	if stmt := t.prepared(ctx, text); stmt != nil {
		return affected(stmt.ExecContext(ctx, args...))
	}
	return affected(t.ExecContext(ctx, t.pool.dialect.spell(text), args...))
}

func (t *txn) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	args = t.pool.dialect.args(text, args)
	if stmt := t.prepared(ctx, text); stmt != nil {
		return stmt.QueryContext(ctx, args...)
	}
	return t.QueryContext(ctx, t.pool.dialect.spell(text), args...)
}

// prepared is the pool's own statement for the text, nil if it has none.
func (t *txn) prepared(ctx context.Context, text string) *sql.Stmt {
	if !t.pool.keeps {
		return nil
	}
	if stmt, ok := t.pool.kept.Load(text); ok {
		return t.StmtContext(ctx, stmt.(*sql.Stmt))
	}
	t.fresh = append(t.fresh, text)
	return nil
}

// atomically runs f in one transaction of the writing pool.
func (db *DB) atomically(ctx context.Context, f func(*txn) error) error {
	tx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	t := &txn{Tx: tx, pool: db.write}
	err = db.finish(ctx, t, f)
	db.prepareAll(ctx, t.fresh)
	return err
}

// prepareAll keeps statements for the texts that a transaction ran without one. One that fails is prepared the next time.
func (db *DB) prepareAll(ctx context.Context, texts []string) {
	for _, text := range texts {
		_, _ = db.write.prepared(ctx, text)
	}
}

// finish runs f in the transaction and ends it.
func (db *DB) finish(ctx context.Context, t *txn, f func(*txn) error) error {
	if err := f(t); err != nil {
		if undo := t.Rollback(); undo != nil && !errors.Is(undo, sql.ErrTxDone) {
			db.log.DebugContext(ctx, "roll back transaction", "error", undo)
		}
		return err
	}
	return t.Commit()
}

// lazily runs f in a transaction of SQLite's that may be lost in a crash: its commit does not wait for the disk.
// What is lost with it must be in some other place.
func (db *DB) lazily(ctx context.Context, f func(*txn) error) error {
	fresh, err := db.relaxed(ctx, f)
	db.checks.wrote()
	db.prepareAll(ctx, fresh)
	return err
}

// note runs a statement whose effect a loss of power may take back: the time of a last use. On SQLite it does not
// wait for the disk, which 64 callers would do one after another. A killed process loses nothing.
func (db *DB) note(ctx context.Context, text string, args ...any) error {
	if db.checks == nil {
		_, err := db.write.exec(ctx, text, args...)
		return err
	}
	fresh, err := db.relaxed(ctx, func(tx *txn) error {
		_, err := tx.exec(ctx, text, args...)
		return err
	})
	db.prepareAll(ctx, fresh)
	return err
}

// relaxed says so to the one writing connection, for the time that it has it.
func (db *DB) relaxed(ctx context.Context, f func(*txn) error) (fresh []string, err error) {
	conn, err := db.write.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, `pragma synchronous = normal`); err != nil {
		return nil, err
	}
	defer func() {
		if _, failed := conn.ExecContext(context.WithoutCancel(ctx), `pragma synchronous = full`); failed != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // it must not serve others as it is
		}
	}()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	t := &txn{Tx: tx, pool: db.write}
	err = db.finish(ctx, t, f)
	return t.fresh, err
}

func affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// scanner is a row to read: *sql.Rows on its present one.
type scanner interface{ Scan(dest ...any) error }

// first returns the first row, or sql.ErrNoRows. It reads to the end: a writing statement has
// succeeded only when its rows end without an error.
func first[T any](ctx context.Context, r runner, scan func(scanner) (T, error), text string, args ...any) (T, error) {
	var none T
	found, err := all(ctx, r, scan, text, args...)
	switch {
	case err != nil:
		return none, err
	case len(found) == 0:
		return none, sql.ErrNoRows
	}
	return found[0], nil
}

// all returns every row.
func all[T any](ctx context.Context, r runner, scan func(scanner) (T, error), text string, args ...any) (items []T, err error) {
	rows, err := r.query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		item, err := scan(rows)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, rows.Err()
}
