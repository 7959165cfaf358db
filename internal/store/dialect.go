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

// dialect is all in which the two engines differ. The SQL texts of this package are portable but for
// a few words in braces, which spell writes out for an engine:
//
//	{now}          the database's clock
//	{now+$3}       $3 microseconds later; {now-$3} earlier
//	{skip locked}  locks the rows read, passing over those that others have locked
//	{gate $14}     a table of one row, read only once nobody else is behind the gate $14
//
// SQLite prepares a statement again for each new value of a bare parameter of a limit, or of one compared with
// a column that a partial index compares with a constant (owner_kind, state). Texts that run often cast it.
type dialect struct {
	name       string
	goose      goose.Dialect
	migrated   string // query that says whether the table of schema versions exists
	columns    string // query for the columns of the table or index $1
	now        string
	micros     string // format of a parameter as that many microseconds
	passClock  bool   // now is a named parameter, and the process's clock its argument
	skipLocked string
	gate       string   // format of a parameter as the table behind its gate
	spelled    sync.Map // text to its spelling

	unavailable func(error) bool // the database does not answer, or cannot just now
	duplicate   func(error) bool // a unique index refused it
	dangling    func(error) bool // a foreign key refused it
	overQuota   func(error) bool // a quota's cap refused it

	// apply makes the change and its history entry: both, or neither and sql.ErrNoRows.
	apply func(ctx context.Context, db *DB, c change) (sandbox.Sandbox, error)
	// lockSchema runs f while no other process migrates this database.
	lockSchema func(ctx context.Context, db *DB, f func() error) error
	// mayMigrate says why migrations cannot run, nil if they can.
	mayMigrate func(ctx context.Context, db *DB) error
	// takeSandbox takes the lease of a sandbox and makes its epoch the sandbox's generation: both,
	// or neither and sql.ErrNoRows.
	takeSandbox func(ctx context.Context, db *DB, l Lease) (Grant, error)
	// reserve makes a reservation and counts it, or says that it is there already.
	reserve func(ctx context.Context, s Scope, kind, ref string, cap int64, until time.Time) (made bool, err error)
	// appendTurns appends to many turns' logs at once.
	appendTurns func(ctx context.Context, db *DB, batch []TurnAppend) ([]bool, error)
	// free removes reservations, which the statement remove selects, and counts them off.
	free func(ctx context.Context, db *DB, remove string, args ...any) (int64, error)
}

var braces = regexp.MustCompile(`\{(now|skip locked|gate)(?:([ +-])(\$\d+))?\}`)

func (d *dialect) spell(text string) string {
	if known, ok := d.spelled.Load(text); ok {
		return known.(string)
	}
	spelled := braces.ReplaceAllStringFunc(text, func(word string) string {
		m := braces.FindStringSubmatch(word)
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

// args adds the clock where the text asks for it.
func (d *dialect) args(text string, args []any) []any {
	if !d.passClock || !strings.Contains(text, "{now") {
		return args
	}
	return append(args[:len(args):len(args)], sql.Named("now", time.Now().UnixMicro()))
}
