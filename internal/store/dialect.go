package store

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/berthdev/berth/internal/sandbox"
)

// dialect holds all differences between the two engines. The SQL texts of this package are portable except for
// words in braces, which spell replaces:
//
//	{now}          the database's clock
//	{now+$3}       $3 microseconds later; {now-$3} earlier
//	{skip locked}  locks the rows read and skips rows that others have locked
//	{gate $14}     a table of one row, available to one statement at a time for each value of $14
//
// SQLite prepares a statement again for each new value of a bare parameter in a limit, or in a comparison with a
// column that a partial index compares with a constant (owner_kind, state). Texts that run often cast such parameters.
type dialect struct {
	name       string
	goose      goose.Dialect
	migrated   string // query that reports whether the table of schema versions exists
	columns    string // query for the columns of the table or index $1
	now        string
	micros     string // format that makes a parameter in microseconds addable to now
	passClock  bool   // pass the process's clock as the parameter $now
	oldestTx   string // the number of the oldest transaction that may still write into change_log
	skipLocked string
	gate       string   // format of the table for {gate $n}; its argument is $n
	spelled    sync.Map // text to its translation

	unavailable func(error) bool // the database does not answer at present
	duplicate   func(error) bool // a unique index refused the write
	dangling    func(error) bool // a foreign key refused the write
	overQuota   func(error) bool // a quota's cap refused the write

	// apply makes the change and its history entry in one transaction, or returns sql.ErrNoRows.
	apply func(ctx context.Context, db *DB, c change) (sandbox.Sandbox, error)
	// lockSchema runs f while no other process migrates this database.
	lockSchema func(ctx context.Context, db *DB, f func() error) error
	// mayMigrate returns an error if migrations cannot run.
	mayMigrate func(ctx context.Context, db *DB) error
	// takeSandbox takes the lease of a sandbox and makes its epoch the sandbox's generation, or returns
	// sql.ErrNoRows.
	takeSandbox func(ctx context.Context, db *DB, l Lease) (Grant, error)
	// reserve makes and counts a reservation. made is false if it exists.
	reserve func(ctx context.Context, s Scope, kind, ref string, cap int64, until time.Time) (made bool, err error)
	// appendTurns appends to many turns' logs at once.
	appendTurns func(ctx context.Context, db *DB, batch []TurnAppend) ([]bool, error)
	// free removes the reservations that the statement remove selects, and lowers the counts.
	free func(ctx context.Context, db *DB, remove string, args ...any) (int64, error)
}

var placeholders = regexp.MustCompile(`\{(now|skip locked|gate)(?:([ +-])(\$\d+))?\}`)

func (d *dialect) spell(text string) string {
	if known, ok := d.spelled.Load(text); ok {
		return known.(string)
	}
	spelled := placeholders.ReplaceAllStringFunc(text, func(word string) string {
		m := placeholders.FindStringSubmatch(word)
		switch {
		case m[1] == "gate":
			return fmt.Sprintf(d.gate, m[3])
		case m[1] == "skip locked":
			return d.skipLocked
		case m[2] == "":
			return d.now
		}
		return fmt.Sprintf("(%s %s %s)", d.now, m[2], fmt.Sprintf(d.micros, m[3]))
	})
	d.spelled.Store(text, spelled)
	return spelled
}

// args adds the process's clock if the text uses it.
func (d *dialect) args(text string, args []any) []any {
	if !d.passClock || !strings.Contains(text, "{now") {
		return args
	}
	return append(args[:len(args):len(args)], sql.Named("now", time.Now().UnixMicro()))
}
