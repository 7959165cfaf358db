package engine_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// memory is an engine.Store for tests in virtual time, where no database can be: fenced as the real one
// is, by the clock of its bubble. What no such test asks for is missing, and panics.
type memory struct {
	engine.Store
	ttl time.Duration

	mu      sync.Mutex
	rows    map[string]*sandbox.Sandbox
	leases  map[string]store.Lease
	holds   map[string]map[string]time.Time
	history map[string][]sandbox.Transition
	onLapse func(id string) // called before a timer's wish is judged
}

func newMemory() *memory {
	return &memory{
		ttl: 15 * time.Second, rows: map[string]*sandbox.Sandbox{}, leases: map[string]store.Lease{},
		holds: map[string]map[string]time.Time{}, history: map[string][]sandbox.Transition{},
	}
}

// read is the row as a query would return it.
func (m *memory) read(id string) (sandbox.Sandbox, error) {
	row, ok := m.rows[id]
	if !ok {
		return sandbox.Sandbox{}, fault.Errorf("read sandbox", api.CodeNotFound, "there is no sandbox %s", id)
	}
	s := *row
	for _, until := range m.holds[id] {
		if until.After(s.HeldUntil) {
			s.HeldUntil = until
		}
	}
	return s, nil
}

func (m *memory) note(s sandbox.Sandbox, ev sandbox.Event, from sandbox.State, reason, actor string) {
	m.history[s.ID] = append(m.history[s.ID], sandbox.Transition{
		Seq: int64(len(m.history[s.ID]) + 1), At: time.Now(), Event: ev, From: from, To: s.State, Want: s.Want, Reason: reason, Actor: actor,
	})
}

func (m *memory) ByOwner(_ context.Context, o sandbox.Owner) (sandbox.Sandbox, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, row := range m.rows {
		if row.Owner == o && !row.Deleted() {
			return m.read(id)
		}
	}
	return sandbox.Sandbox{}, fault.Errorf("read sandbox", api.CodeNotFound, "%s has none", o)
}

func (m *memory) ByID(_ context.Context, _, id string) (sandbox.Sandbox, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.read(id)
	if err == nil && s.Deleted() {
		err = fault.Errorf("read sandbox", api.CodeDeleted, "sandbox %s was deleted", id)
	}
	return s, err
}

func (m *memory) Sandbox(_ context.Context, id string) (sandbox.Sandbox, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.read(id)
}

func (m *memory) RequestSandbox(ctx context.Context, tenant string, in store.SandboxRequest) (sandbox.Sandbox, bool, error) {
	owner := sandbox.Owner{Tenant: tenant, Kind: in.Kind, ID: in.Owner}
	if s, err := m.ByOwner(ctx, owner); err == nil {
		if err := in.Accept(s); err != nil {
			return s, false, err
		}
		s, err = m.Want(ctx, tenant, s.ID, in.Want, in.Reason, in.Actor)
		return s, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, row := range m.rows {
		if row.Owner == owner && row.State != sandbox.Terminated {
			s, _ := m.read(id)
			return s, false, fault.Errorf("record sandbox", api.CodeDeleting, "sandbox %s is being deleted", id)
		}
	}
	now := time.Now()
	s := sandbox.Sandbox{ID: store.NewID(), Owner: owner, Spec: in.Spec, State: sandbox.Pending, Want: in.Want, CreatedAt: now, ActiveAt: now, DueAt: now}
	m.rows[s.ID] = &s
	m.note(s, "", s.State, in.Reason, in.Actor)
	return s, true, nil
}

// wish changes the desired state of a sandbox that is not deleted.
func (m *memory) wish(id string, w sandbox.Want, reason, actor string, change func(*sandbox.Sandbox)) (sandbox.Sandbox, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.rows[id]
	if row == nil || row.Deleted() {
		return sandbox.Sandbox{}, fault.Errorf("set desired state", api.CodeDeleted, "sandbox %s was deleted", id)
	}
	row.Want, row.DueAt = w, time.Now()
	change(row)
	m.note(*row, "", row.State, reason, actor)
	return m.read(id)
}

func (m *memory) Want(_ context.Context, _, id string, w sandbox.Want, reason, actor string) (sandbox.Sandbox, error) {
	return m.wish(id, w, reason, actor, func(s *sandbox.Sandbox) { s.SkipSave, s.ActiveAt = false, time.Now() })
}

func (m *memory) Terminate(_ context.Context, _, id string, skip bool, reason, actor string) (sandbox.Sandbox, error) {
	return m.wish(id, sandbox.WantGone, reason, actor, func(s *sandbox.Sandbox) { s.SkipSave, s.ActiveAt = skip, time.Now() })
}

func (m *memory) Delete(_ context.Context, _, id string, skip bool, reason, actor string) (sandbox.Sandbox, error) {
	m.mu.Lock()
	if row := m.rows[id]; row != nil && row.Deleted() {
		defer m.mu.Unlock()
		row.SkipSave, row.DueAt = row.SkipSave || skip, time.Now()
		return *row, nil
	}
	m.mu.Unlock()
	return m.wish(id, sandbox.WantGone, reason, actor, func(s *sandbox.Sandbox) { s.SkipSave, s.DeletedAt = skip, time.Now() })
}

func (m *memory) WantIfIdle(_ context.Context, seen sandbox.Sandbox, w sandbox.Want, reason, actor string) (sandbox.Sandbox, bool, error) {
	if m.onLapse != nil {
		m.onLapse(seen.ID)
	}
	m.mu.Lock()
	row, err := m.read(seen.ID)
	m.mu.Unlock()
	if err != nil || row.Deleted() || row.Want != seen.Want || !row.ActiveAt.Equal(seen.ActiveAt) || row.HeldUntil.After(time.Now()) {
		return sandbox.Sandbox{}, false, err
	}
	s, err := m.wish(seen.ID, w, reason, actor, func(*sandbox.Sandbox) {})
	return s, err == nil, err
}

func (m *memory) Touch(_ context.Context, _, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows[id].ActiveAt = time.Now()
	return nil
}

func (m *memory) RecordChange(_ context.Context, _, id string, saved bool, saveAfter time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, now := m.rows[id], time.Now()
	if due := now.Add(saveAfter); saved && row.UnsavedSince.IsZero() {
		row.UnsavedSince = now
		if row.DueAt.IsZero() || row.DueAt.After(due) {
			row.DueAt = due
		}
	}
	row.ActiveAt, row.ChangedAt = now, now
	return nil
}

func (m *memory) RecordSync(_ context.Context, l store.Lease, mark sandbox.SyncMark, began time.Time) (sandbox.Sandbox, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, err := m.fenced(l)
	if err != nil {
		return sandbox.Sandbox{}, err
	}
	row.Synced = mark
	if began.IsZero() {
		return *row, nil
	}
	row.SaveFailure = nil
	switch {
	case !row.UnsavedSince.Before(began):
	case !row.ChangedAt.Before(began):
		row.UnsavedSince = began
	default:
		row.UnsavedSince = time.Time{}
	}
	return *row, nil
}

func (m *memory) RecordSaveFailure(_ context.Context, l store.Lease, f sandbox.Failure) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, err := m.fenced(l)
	if err == nil {
		row.SaveFailure = &f
	}
	return err
}

func (m *memory) RecordStillUnsaved(_ context.Context, l store.Lease, began time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, err := m.fenced(l)
	if err == nil && row.UnsavedSince.IsZero() {
		row.UnsavedSince = began
	}
	return err
}

func (m *memory) Holds(_ context.Context, id string) (held []store.Held, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, until := range m.holds[id] {
		kind := name
		if strings.HasPrefix(name, engine.HoldTurn) {
			kind = engine.HoldTurn
		}
		if until.After(time.Now()) {
			held = append(held, store.Held{Kind: kind, Until: until})
		}
	}
	return held, nil
}

func (m *memory) CountUnsaved(context.Context) (int64, time.Time, error) { return 0, time.Time{}, nil }

func (m *memory) Hold(_ context.Context, id, kind, ref string, until time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows[id].ActiveAt = time.Now()
	if m.holds[id] == nil {
		m.holds[id] = map[string]time.Time{}
	}
	m.holds[id][kind+ref] = until
	return nil
}

func (m *memory) DropHold(_ context.Context, id, kind, ref string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.holds[id], kind+ref)
	m.rows[id].ActiveAt, m.rows[id].DueAt = time.Now(), time.Now()
	return nil
}

func (m *memory) Lease(_ context.Context, kind, id, holder string) (store.Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.leases[id]
	if old.Holder != "" && old.Until.After(time.Now()) {
		return store.Grant{Lease: old}, nil
	}
	l := store.Lease{Kind: kind, ID: id, Holder: holder, Epoch: old.Epoch + 1, Until: time.Now().Add(m.ttl)}
	m.leases[id], m.rows[id].Generation = l, l.Epoch
	s, err := m.read(id)
	return store.Grant{OK: true, Lease: l, Sandbox: s}, err
}

// fenced is the row, for the holder of its newest lease.
func (m *memory) fenced(l store.Lease) (*sandbox.Sandbox, error) {
	if m.leases[l.ID].Epoch != l.Epoch || m.rows[l.ID].Generation != l.Epoch {
		return nil, fault.Errorf("write", api.CodeStale, "a newer lease of %s exists", l.ID)
	}
	return m.rows[l.ID], nil
}

func (m *memory) Renew(_ context.Context, l store.Lease) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.fenced(l)
	if err == nil && m.leases[l.ID].Holder != l.Holder {
		err = fault.Errorf("renew lease", api.CodeStale, "it was released")
	}
	if err == nil {
		l.Until = time.Now().Add(m.ttl)
		m.leases[l.ID] = l
	}
	return err
}

func (m *memory) Release(_ context.Context, l store.Lease) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.fenced(l); err == nil {
		m.leases[l.ID] = store.Lease{Epoch: l.Epoch}
	}
	return nil
}

// due sets when the row is looked at again, unless it was used or wished for since the holder planned.
func due(row *sandbox.Sandbox, d store.Due) {
	if row.Want == d.Want && (d.UsedAt.IsZero() || d.UsedAt.Equal(row.ActiveAt)) {
		row.DueAt = d.At
	}
}

func (m *memory) Commit(_ context.Context, l store.Lease, c sandbox.Change, d store.Due) (sandbox.Sandbox, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, err := m.fenced(l)
	if err != nil {
		return sandbox.Sandbox{}, err
	}
	if c.If != "" && row.Want != c.If {
		return sandbox.Sandbox{}, sandbox.ErrOvertaken
	}
	from := row.State
	to, err := sandbox.Next(from, c.Event)
	if err != nil {
		return sandbox.Sandbox{}, err
	}
	*row = row.Apply(c, to, time.Now())
	due(row, d)
	m.note(*row, c.Event, from, c.Reason, c.Actor)
	return m.read(l.ID)
}

func (m *memory) RecordFailure(_ context.Context, l store.Lease, f sandbox.Failure, d store.Due, probed time.Time) error {
	return m.set(l, d, probed, func(s *sandbox.Sandbox) { s.Failure = &f })
}

func (m *memory) SetDue(_ context.Context, l store.Lease, d store.Due, probed time.Time) error {
	return m.set(l, d, probed, func(*sandbox.Sandbox) {})
}

func (m *memory) set(l store.Lease, d store.Due, probed time.Time, change func(*sandbox.Sandbox)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, err := m.fenced(l)
	if err != nil {
		return err
	}
	if change(row); !probed.IsZero() {
		row.ProbedAt = probed
	}
	due(row, d)
	return nil
}

func (m *memory) Due(_ context.Context, _ string, limit int) (claimed []sandbox.Sandbox, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for id, row := range m.rows {
		l := m.leases[id]
		if len(claimed) == limit || row.DueAt.IsZero() || row.DueAt.After(now) || l.Holder != "" && l.Until.After(now) {
			continue
		}
		row.DueAt = now.Add(m.ttl)
		s, _ := m.read(id)
		claimed = append(claimed, s)
	}
	return claimed, nil
}

func (m *memory) ListInstances(_ context.Context, d, _, after string, limit int) (claims []store.InstanceRecord, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, row := range m.rows {
		if row.Spec.Driver == d && row.Instance != "" && id > after {
			claims = append(claims, store.InstanceRecord{Sandbox: id, Instance: row.Instance, State: row.State})
		}
	}
	slices.SortFunc(claims, func(a, b store.InstanceRecord) int { return strings.Compare(a.Sandbox, b.Sandbox) })
	return claims[:min(len(claims), limit)], nil
}

func (m *memory) ExpireKeys(context.Context, time.Time, int) (int64, error) { return 0, nil }
func (m *memory) ExpireHolds(context.Context, int) (int64, error)           { return 0, nil }
func (m *memory) ExpireReservations(context.Context, int) (int64, error)    { return 0, nil }
func (m *memory) ExpireExposed(context.Context, int) (int64, error)         { return 0, nil }
