package engine

import (
	"context"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Store is the part of the database that the engine uses. [OnDB] implements it.
type Store interface {
	ByOwner(ctx context.Context, o sandbox.Owner) (sandbox.Sandbox, error)
	ByID(ctx context.Context, tenant, id string) (sandbox.Sandbox, error)
	Sandbox(ctx context.Context, id string) (sandbox.Sandbox, error)

	RequestSandbox(ctx context.Context, tenant string, in store.SandboxRequest) (s sandbox.Sandbox, created bool, err error)
	Delete(ctx context.Context, tenant, id string, skipSave bool, reason, actor string) (sandbox.Sandbox, error)
	Terminate(ctx context.Context, tenant, id string, skipSave bool, reason, actor string) (sandbox.Sandbox, error)
	WantIfIdle(ctx context.Context, seen sandbox.Sandbox, w sandbox.Want, reason, actor string) (s sandbox.Sandbox, done bool, err error)
	Want(ctx context.Context, tenant, id string, w sandbox.Want, reason, actor string) (sandbox.Sandbox, error)
	Touch(ctx context.Context, tenant, id string) error
	Hold(ctx context.Context, id, kind, ref string, until time.Time) error
	DropHold(ctx context.Context, id, kind, ref string) error

	Lease(ctx context.Context, kind, id, holder string) (store.Grant, error)
	Renew(ctx context.Context, l store.Lease) error
	Release(ctx context.Context, l store.Lease) error
	Commit(ctx context.Context, l store.Lease, c sandbox.Change, due store.Due) (sandbox.Sandbox, error)
	RecordFailure(ctx context.Context, l store.Lease, f sandbox.Failure, due store.Due, probed time.Time) error
	RecordSync(ctx context.Context, l store.Lease, mark sandbox.SyncMark, began time.Time) (sandbox.Sandbox, error)
	RecordStillUnsaved(ctx context.Context, l store.Lease, began time.Time) error
	RecordSaveFailure(ctx context.Context, l store.Lease, f sandbox.Failure) error
	Holds(ctx context.Context, id string) ([]store.Held, error)
	RecordChange(ctx context.Context, tenant, id string, saved bool, saveAfter time.Duration) error
	CountUnsaved(ctx context.Context) (n int64, oldest time.Time, err error)
	SetDue(ctx context.Context, l store.Lease, due store.Due, probed time.Time) error
	Due(ctx context.Context, host string, limit int) ([]sandbox.Sandbox, error)
	ListRunning(ctx context.Context, host, after string, limit int) ([]sandbox.Sandbox, error)
	ListInstances(ctx context.Context, driver, host, after string, limit int) ([]store.InstanceRecord, error)
	RenewHost(ctx context.Context, name, advertiseURL string, started time.Time) (forgotten bool, err error)
	ReadmitHost(ctx context.Context, name string) error
	Host(ctx context.Context, name string) (store.Host, error)
	ForgetHost(ctx context.Context, name string, force bool) (store.Host, error)
	ListOnHost(ctx context.Context, host, after string, limit int) ([]sandbox.Sandbox, error)
	Seize(ctx context.Context, id, holder string) (store.Grant, error)
	Unpin(ctx context.Context, l store.Lease, reason, actor string) (sandbox.Sandbox, error)
	ExpireKeys(ctx context.Context, before time.Time, limit int) (int64, error)
	ExpireHolds(ctx context.Context, limit int) (int64, error)
	ExpireReservations(ctx context.Context, limit int) (int64, error)
	RecordExposed(ctx context.Context, s sandbox.Sandbox, url, token string, lifetime time.Duration) error
	ExpireExposed(ctx context.Context, limit int) (int64, error)
}

// OnDB returns the Store of a database.
func OnDB(db *store.DB) Store {
	return onDB{db, db.Leases(), db.Holds(), db.Hosts(), db.Syncs(), db.APIKeys().URLs()}
}

type onDB struct {
	*store.DB
	store.LeaseTable
	store.HoldTable
	store.Hosts
	store.Syncs
	store.AllPreviewURLs
}

func (d onDB) in(tenant string) store.Scope { return d.In(store.TenantID(tenant)) }

func (d onDB) ByOwner(ctx context.Context, o sandbox.Owner) (sandbox.Sandbox, error) {
	return d.in(o.Tenant).ByOwner(ctx, o.Kind, o.ID)
}

func (d onDB) ByID(ctx context.Context, tenant, id string) (sandbox.Sandbox, error) {
	return d.in(tenant).ByID(ctx, id)
}

func (d onDB) RequestSandbox(ctx context.Context, tenant string, in store.SandboxRequest) (sandbox.Sandbox, bool, error) {
	return d.in(tenant).RequestSandbox(ctx, in)
}

func (d onDB) Delete(ctx context.Context, tenant, id string, skipSave bool, reason, actor string) (sandbox.Sandbox, error) {
	return d.in(tenant).Delete(ctx, id, skipSave, reason, actor)
}

func (d onDB) Terminate(ctx context.Context, tenant, id string, skipSave bool, reason, actor string) (sandbox.Sandbox, error) {
	return d.in(tenant).Terminate(ctx, id, skipSave, reason, actor)
}

func (d onDB) WantIfIdle(ctx context.Context, seen sandbox.Sandbox, w sandbox.Want, reason, actor string) (sandbox.Sandbox, bool, error) {
	return d.in(seen.Owner.Tenant).WantIfIdle(ctx, seen, w, reason, actor)
}

func (d onDB) Want(ctx context.Context, tenant, id string, w sandbox.Want, reason, actor string) (sandbox.Sandbox, error) {
	return d.in(tenant).Want(ctx, id, w, reason, actor)
}

func (d onDB) Holds(ctx context.Context, id string) ([]store.Held, error) {
	return d.HoldTable.List(ctx, id)
}

func (d onDB) Touch(ctx context.Context, tenant, id string) error { return d.in(tenant).Touch(ctx, id) }

func (d onDB) RecordChange(ctx context.Context, tenant, id string, saved bool, saveAfter time.Duration) error {
	return d.in(tenant).RecordChange(ctx, id, saved, saveAfter)
}
