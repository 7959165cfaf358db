package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// connectProblem returns an error with the address of PostgreSQL, the cause and a hint. It never contains the
// password.
func connectProblem(config *pgx.ConnConfig, err error) error {
	code, what, hint := explainConnect(err)
	e := fault.Errorf("open database", code, "PostgreSQL at %s, database %q, user %q: %s", address(config), config.Database, config.User, what)
	e.Hint = hint
	return e
}

// explainConnect returns code, description and hint for a failed connection. It repeats the text of unknown errors.
func explainConnect(err error) (code api.Code, what, hint string) {
	const down = api.CodeStoreUnavailable
	var unknownHost *net.DNSError
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg):
		return explainRefusal(pg)
	case errors.Is(err, syscall.ECONNREFUSED):
		return down, "connection refused", "Start PostgreSQL, or correct host and port of --database-url (DATABASE_URL)."
	case errors.Is(err, syscall.ENOENT):
		return down, "there is no such socket", "Start PostgreSQL, or correct the socket's directory and the port of --database-url (DATABASE_URL)."
	case errors.As(err, &unknownHost):
		return down, "the host name is unknown", "Correct the host of --database-url (DATABASE_URL), or the machine's DNS."
	case errors.Is(err, context.DeadlineExceeded), pgconn.Timeout(err):
		return down, "no answer in time", "Check that the host is up, and that no firewall drops connections to that port."
	case strings.Contains(strings.ToLower(err.Error()), "tls"):
		return down, lastMessage(err), "Set sslmode in --database-url (DATABASE_URL) to what the server offers."
	}
	return down, lastMessage(err), "Check --database-url (DATABASE_URL) and the server's log."
}

func explainRefusal(pg *pgconn.PgError) (code api.Code, what, hint string) {
	switch {
	case strings.HasPrefix(pg.Code, "28"):
		return api.CodeInvalidConfig, "user or password refused", "Correct user and password of --database-url (DATABASE_URL), or the server's pg_hba.conf."
	case pg.Code == "3D000":
		return api.CodeInvalidConfig, "there is no such database", "Create it (createdb NAME), or correct the name in --database-url (DATABASE_URL)."
	case pg.Code == "53300":
		return api.CodeStoreUnavailable, "it has no connection left", "Raise max_connections, or lower pool_max_conns in the URLs of those who use it."
	case strings.HasPrefix(pg.Code, "57P"):
		return api.CodeStoreUnavailable, pg.Message, "It is starting up or shutting down: try again in a moment."
	}
	return api.CodeStoreUnavailable, pg.Message, "The server's log has more."
}

// mayMigratePostgres returns an error with the missing privileges if the role cannot create tables.
func mayMigratePostgres(ctx context.Context, db *DB) error {
	var schema, role, database string
	may, err := first(ctx, db.write, func(row scanner) (may bool, err error) {
		return may, row.Scan(&may, &schema, &role, &database)
	}, `select coalesce(has_schema_privilege(current_schema(), 'CREATE'), false),
		coalesce(quote_ident(current_schema()), 'public'), quote_ident(current_user), quote_ident(current_database())`)
	if err != nil || may {
		return err
	}
	e := fault.Errorf("migrate schema", api.CodeInvalidConfig, "role %s may not create tables in schema %s of database %s", role, schema, database)
	e.Hint = fmt.Sprintf("As a superuser, in that database: GRANT USAGE, CREATE ON SCHEMA %s TO %s, or make the role the schema's owner.", schema, role)
	return e
}

// lastMessage returns the text of the innermost error. The outer errors repeat address and user.
func lastMessage(err error) string {
	for {
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			if inner := e.Unwrap(); inner != nil {
				err = inner
				continue
			}
		case interface{ Unwrap() []error }:
			if inner := e.Unwrap(); len(inner) > 0 {
				err = inner[len(inner)-1]
				continue
			}
		}
		return err.Error()
	}
}

func address(config *pgx.ConnConfig) string {
	port := strconv.Itoa(int(config.Port))
	if strings.HasPrefix(config.Host, "/") {
		return config.Host + " port " + port
	}
	return net.JoinHostPort(config.Host, port)
}
