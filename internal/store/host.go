package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
)

// HostAlive is the time that a host counts as alive after its last renewal.
const HostAlive = time.Minute

// Host is a machine that keeps local sandboxes. Its name is stored in its data directory.
type Host struct {
	Name         string
	AdvertiseURL string    // the URL at which clients reach the host's server; empty: unknown
	StartedAt    time.Time // start of its newest server
	SeenAt       time.Time // zero: never
	ForgottenAt  time.Time // zero: not forgotten, or readmitted
	Alive        bool
	Sandboxes    int64 // number of sandboxes pinned to it, including those being deleted
}

// Hosts holds the machines of the installation and the sandboxes that are pinned to them.
type Hosts struct{ db *DB }

// Hosts returns the records of machines.
func (db *DB) Hosts() Hosts { return Hosts{db} }

// RenewHost records that a server of the host is alive. It reports whether the host was forgotten before.
func (ho Hosts) RenewHost(ctx context.Context, name, advertiseURL string, started time.Time) (forgotten bool, err error) {
	forgotten, err = first(ctx, ho.db.write, scanOne[bool], `
		insert into hosts (name, advertise_url, started_at, seen_at) values ($1, $2, $3, {now})
		on conflict (name) do update set advertise_url = excluded.advertise_url, started_at = excluded.started_at, seen_at = excluded.seen_at
		returning forgotten_at is not null`, name, advertiseURL, at(started))
	return forgotten, ho.db.recordScan("record host", err)
}

// ReadmitHost makes a forgotten host usable again. Sandboxes that moved to other hosts stay there.
func (ho Hosts) ReadmitHost(ctx context.Context, name string) error {
	_, err := ho.db.write.exec(ctx, `update hosts set forgotten_at = null where name = $1`, name)
	return ho.db.fail("readmit host", err)
}

const hostColumns = `name, advertise_url, started_at, seen_at, forgotten_at, forgotten_at is null and seen_at > {now-$1},
	(select count(*) from sandboxes where host = hosts.name and (deleted_at is null or state <> 'terminated'))`

func scanHost(row scanner) (h Host, err error) {
	err = row.Scan(&h.Name, &h.AdvertiseURL, instant{&h.StartedAt}, instant{&h.SeenAt}, instant{&h.ForgottenAt}, &h.Alive, &h.Sandboxes)
	return h, err
}

// List lists all hosts that have reported or that sandboxes are pinned to, by name.
func (ho Hosts) List(ctx context.Context) ([]Host, error) {
	hosts, err := all(ctx, ho.db.read, scanHost, `
		select `+hostColumns+` from hosts
		union all
		select host, '', cast(null as timestamptz), cast(null as timestamptz), cast(null as timestamptz), false, count(*) from sandboxes
		where host <> '' and (deleted_at is null or state <> 'terminated') and not exists (select 1 from hosts where hosts.name = sandboxes.host)
		group by host
		order by 1`, HostAlive.Microseconds())
	return hosts, ho.db.fail("list hosts", err)
}

// Host returns one host, or ErrNotFound.
func (ho Hosts) Host(ctx context.Context, name string) (Host, error) {
	hosts, err := ho.List(ctx)
	if err != nil {
		return Host{}, err
	}
	for _, h := range hosts {
		if h.Name == name {
			return h, nil
		}
	}
	return Host{}, notFound("read host", "host", name)
}

// ForgetHost records that a host is gone for good. Unless force is set, it refuses a host that is alive or was never
// seen.
func (ho Hosts) ForgetHost(ctx context.Context, name string, force bool) (Host, error) {
	const op = "forget host"
	h, err := ho.Host(ctx, name)
	if err != nil {
		return h, err
	}
	if !force && (h.Alive || h.SeenAt.IsZero()) {
		e := fault.Errorf(op, api.CodeConflict, "the server of %s was seen at %s", name, h.SeenAt.UTC().Format(time.RFC3339))
		if h.SeenAt.IsZero() {
			e = fault.Errorf(op, api.CodeConflict, "no server of %s has ever reported that it runs", name)
		}
		e.Hint = "Turn the machine off first: what still runs there is not saved. Then wait for a minute, or force it (--force)."
		return h, e
	}
	h, err = first(ctx, ho.db.write, scanHost, `
		insert into hosts (name, advertise_url, started_at, seen_at, forgotten_at) values ($2, '', {now}, {now-$1}, {now})
		on conflict (name) do update set forgotten_at = excluded.forgotten_at
		returning `+hostColumns, HostAlive.Microseconds(), name)
	return h, ho.db.fail(op, err)
}

// ListOnHost lists the sandboxes of all tenants that are pinned to a host, including those being deleted, ordered
// by id, starting after the given one.
func (ho Hosts) ListOnHost(ctx context.Context, host, after string, limit int) ([]sandbox.Sandbox, error) {
	found, err := all(ctx, ho.db.read, ho.db.scanSandbox, `
		select `+sandboxColumns+` from sandboxes
		where host = $1 and host <> '' and sandboxes.id > $2 and (deleted_at is null or state <> 'terminated')
		order by sandboxes.id limit $3`, host, after, clampLimit(limit))
	return found, ho.db.fail("list sandboxes of a host", err)
}

// Seize takes the lease of a sandbox from its holder.
func (ho Hosts) Seize(ctx context.Context, id, holder string) (Grant, error) {
	_, err := ho.db.write.exec(ctx, `update leases set until = {now}, holder = '' where kind = $1 and id = $2`, LeaseSandbox, id)
	if err != nil {
		return Grant{}, ho.db.fail("seize lease", err)
	}
	return ho.db.Leases().Lease(ctx, LeaseSandbox, id, holder)
}

// Unpin removes the pin of a sandbox, so that any host may start it, and makes it due. An instance in its row is left
// on its host.
func (ho Hosts) Unpin(ctx context.Context, l Lease, reason, actor string) (sandbox.Sandbox, error) {
	const op = "unpin sandbox"
	sb, err := ho.db.dialect.apply(ctx, ho.db, change{
		text: `update sandboxes set host = '', instance = '', left_incarnation = incarnation, due_at = {now}, changes = changes + 1
			where ` + fence,
		args: []any{l.ID, l.Epoch}, reason: reason, actor: actor,
	})
	if errors.Is(err, sql.ErrNoRows) {
		return sb, stale(op, "sandbox "+l.ID)
	}
	return sb, ho.db.fail(op, err)
}

// otherHost returns the condition for leaving a turn to the host that its sandbox is pinned to: another host that is
// alive. The arguments are the parameters for this host and for HostAlive.
func otherHost(host, alive string) string {
	return `exists (select 1 from sandboxes b join hosts on hosts.name = b.host where b.id = turns.sandbox and b.host <> cast(` + host + ` as text)
		and hosts.forgotten_at is null and hosts.seen_at > {now-` + alive + `})`
}
