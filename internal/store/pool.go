package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
)

// runner runs statements: a pool runs each one separately, a txn runs all in one transaction.
type runner interface {
	exec(ctx context.Context, text string, args ...any) (rows int64, err error)
	query(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

// pool is a connection pool that translates SQL texts for its engine.
type pool struct {
	*sql.DB
	dialect         *dialect
	cacheStatements bool     // prepare each text once; false for drivers that do so themselves
	statements      sync.Map // text to *sql.Stmt; the number of different texts is bounded
}

func (p *pool) exec(ctx context.Context, text string, args ...any) (int64, error) {
	if !p.cacheStatements {
		return affected(p.ExecContext(ctx, p.dialect.spell(text), p.dialect.args(text, args)...))
	}
	stmt, err := p.prepared(ctx, text)
	if err != nil {
		return 0, err
	}
	return affected(stmt.ExecContext(ctx, p.dialect.args(text, args)...))
}

func (p *pool) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if !p.cacheStatements {
		return p.QueryContext(ctx, p.dialect.spell(text), p.dialect.args(text, args)...)
	}
	stmt, err := p.prepared(ctx, text)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, p.dialect.args(text, args)...)
}

func (p *pool) prepared(ctx context.Context, text string) (*sql.Stmt, error) {
	if stmt, ok := p.statements.Load(text); ok {
		return stmt.(*sql.Stmt), nil
	}
	stmt, err := p.PrepareContext(ctx, p.dialect.spell(text))
	if err != nil {
		return nil, err
	}
	if first, raced := p.statements.LoadOrStore(text, stmt); raced {
		return first.(*sql.Stmt), stmt.Close()
	}
	return stmt, nil
}

// txn is a transaction. It is open for a few statements only, never during calls to other systems.
type txn struct {
	*sql.Tx
	pool  *pool
	fresh []string // texts that the pool should prepare after the transaction
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

// prepared returns the pool's statement for the text, nil if it has none.
func (t *txn) prepared(ctx context.Context, text string) *sql.Stmt {
	if !t.pool.cacheStatements {
		return nil
	}
	if stmt, ok := t.pool.statements.Load(text); ok {
		return t.StmtContext(ctx, stmt.(*sql.Stmt))
	}
	t.fresh = append(t.fresh, text)
	return nil
}

// inTx runs f in one transaction of the writing pool.
func (db *DB) inTx(ctx context.Context, f func(*txn) error) error {
	tx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	t := &txn{Tx: tx, pool: db.write}
	err = db.finish(ctx, t, f)
	db.prepareAll(ctx, t.fresh)
	return err
}

// prepareAll prepares the texts that a transaction ran unprepared. It ignores errors: a failed text is tried again at
// its next use.
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

// inRelaxedTx runs f in an SQLite transaction that a power failure may undo: its commit does not wait for the disk.
// Its data must exist elsewhere, too.
func (db *DB) inRelaxedTx(ctx context.Context, f func(*txn) error) error {
	fresh, err := db.runRelaxed(ctx, f)
	db.checks.wrote()
	db.prepareAll(ctx, fresh)
	return err
}

// execRelaxed runs a statement whose effect a power failure may undo, such as the time of the last use. On SQLite
// it does not wait for the disk, so that concurrent callers do not queue for fsync. A killed process loses nothing.
func (db *DB) execRelaxed(ctx context.Context, text string, args ...any) error {
	if db.checks == nil {
		_, err := db.write.exec(ctx, text, args...)
		return err
	}
	fresh, err := db.runRelaxed(ctx, func(tx *txn) error {
		_, err := tx.exec(ctx, text, args...)
		return err
	})
	db.prepareAll(ctx, fresh)
	return err
}

// runRelaxed runs f on the writing connection with synchronous = normal.
func (db *DB) runRelaxed(ctx context.Context, f func(*txn) error) (fresh []string, err error) {
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
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the pragma is still set: drop the connection
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

// scanner is a row to read, for example the current one of *sql.Rows.
type scanner interface{ Scan(dest ...any) error }

// first returns the first row, or sql.ErrNoRows. It reads all rows: a writing statement has succeeded only when its
// rows end without an error.
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
