package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// fail converts any error to a fault.Error. A fault.Error passes unchanged.
func (db *DB) fail(op string, err error) error {
	var ours *fault.Error
	if err == nil || errors.As(err, &ours) {
		return err
	}
	if refused := db.refusedBySchema(op, err); refused != nil {
		return refused
	}
	db.suspectDamage(err)
	return fault.Errorf(op, db.codeOf(err), "%w", err)
}

func (db *DB) codeOf(err error) api.Code {
	switch {
	case errors.Is(err, context.Canceled):
		return api.CodeTimeout // the caller is gone; the database is not at fault
	case sqlitePrimary(err) == sqlite3.SQLITE_FULL:
		return api.CodeServerDiskFull
	case errors.Is(err, context.DeadlineExceeded), db.dialect.unavailable(err), closed(err):
		return api.CodeStoreUnavailable
	case sqliteBroken(err):
		return api.CodeDatabaseDamaged
	case db.dialect.duplicate(err):
		return api.CodeConflict
	case errors.Is(err, sql.ErrNoRows), db.dialect.dangling(err):
		return api.CodeNotFound
	case strings.HasPrefix(sqlState(err), "22"), strings.HasPrefix(sqlState(err), "54"):
		return api.CodeInvalidRequest // text PostgreSQL cannot hold: a NUL byte, or too long for an index
	}
	return api.CodeInternal
}

// connectionLost reports whether a connection broke or could not be opened.
func connectionLost(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	if errors.As(err, &connect) || errors.As(err, &network) {
		return true
	}
	for _, broken := range []error{driver.ErrBadConn, sql.ErrConnDone, pgconn.ErrConnClosed, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed} {
		if errors.Is(err, broken) {
			return true
		}
	}
	return false
}

// stale returns the error for a holder that lost its lease.
func stale(op, what string) error {
	return fault.Errorf(op, api.CodeStale, "%s now belongs to another holder", what)
}

// closed reports whether an error comes from a call on a closed store; database/sql exports no error for it.
func closed(err error) bool { return err.Error() == "sql: database is closed" }
