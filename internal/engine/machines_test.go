package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
)

// machines is a driver in memory, for tests in virtual time. It can stop its instances, and there is a
// helper in each.
type machines struct {
	mu    sync.Mutex
	live  map[driver.ID]driver.Status
	dumb  map[driver.ID]int // how many more pings the helper does not answer; a restart mends it
	calls map[string]int    // by operation
	fault func(op string, id driver.ID) error
	made  int
}

func newMachines() *machines {
	return &machines{live: map[driver.ID]driver.Status{}, dumb: map[driver.ID]int{}, calls: map[string]int{}}
}

func (m *machines) Kind() string { return "memory" }

// change is one call: the fault set for it, or what it does.
func (m *machines) change(op string, id driver.ID, do func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[op]++
	if m.fault != nil {
		if err := m.fault(op, id); err != nil {
			return err
		}
	}
	return do()
}

// on sets what calls fail with, and nil brings peace.
func (m *machines) on(fault func(op string, id driver.ID) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = fault
}

func (m *machines) count(op string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[op]
}

// silence lets an instance's helper not answer so often.
func (m *machines) silence(id driver.ID, pings int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dumb[id] = pings
}

func (m *machines) Create(_ context.Context, spec driver.Spec) (st driver.Status, err error) {
	err = m.change("create", "", func() error {
		m.made++
		st = driver.Status{ID: driver.ID(fmt.Sprint("m-", m.made)), Key: spec.Key, Tenant: spec.Tenant, Phase: driver.PhaseRunning, Labels: spec.Labels, CreatedAt: time.Now()}
		m.live[st.ID] = st
		return nil
	})
	return st, err
}

func (m *machines) Inspect(_ context.Context, id driver.ID) (st driver.Status, err error) {
	err = m.change("inspect", id, func() (err error) {
		st, err = m.find(id)
		return err
	})
	return st, err
}

func (m *machines) find(id driver.ID) (driver.Status, error) {
	if st, ok := m.live[id]; ok {
		return st, nil
	}
	return driver.Status{}, driver.ErrNotFound
}

func (m *machines) List(_ context.Context, sel driver.Selector) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		if err := m.change("list", "", func() error { return nil }); err != nil {
			yield(driver.Status{}, err)
			return
		}
		for _, st := range m.all(sel) {
			if !yield(st, nil) {
				return
			}
		}
	}
}

func (m *machines) all(sel driver.Selector) (found []driver.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, st := range m.live {
		if sel.Sandbox == "" || st.Key.Sandbox == sel.Sandbox {
			found = append(found, st)
		}
	}
	slices.SortFunc(found, func(a, b driver.Status) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return found
}

func (m *machines) Destroy(_ context.Context, id driver.ID) error {
	return m.change("destroy", id, func() error { delete(m.live, id); return nil })
}

// become puts an instance into a phase.
func (m *machines) become(op string, id driver.ID, phase driver.Phase) (st driver.Status, err error) {
	err = m.change(op, id, func() (err error) {
		if st, err = m.find(id); err == nil {
			st.Phase = phase
			m.live[id] = st
		}
		return err
	})
	return st, err
}

func (m *machines) Stop(_ context.Context, id driver.ID) error {
	_, err := m.become("stop", id, driver.PhaseStopped)
	if err == nil {
		m.silence(id, 0)
	}
	return err
}

func (m *machines) Start(_ context.Context, id driver.ID) (driver.Status, error) {
	return m.become("start", id, driver.PhaseRunning)
}

func (m *machines) Guest(_ context.Context, id driver.ID) (guest.Conn, error) {
	err := m.change("guest", id, func() error {
		st, err := m.find(id)
		if err == nil && st.Phase != driver.PhaseRunning {
			err = driver.ErrNotRunning
		}
		return err
	})
	return &phone{m: m, id: id}, err
}

func (m *machines) Output(context.Context, driver.ID, string, int64) iter.Seq2[guest.Chunk, error] {
	return func(func(guest.Chunk, error) bool) {}
}

// phone is a connection to a helper that answers a ping, or does not.
type phone struct {
	guest.Conn
	m  *machines
	id driver.ID
}

func (p *phone) Ping(context.Context) error {
	return p.m.change("ping", p.id, func() error {
		if p.m.dumb[p.id] > 0 {
			p.m.dumb[p.id]--
			return guest.ErrGone
		}
		return nil
	})
}

func (p *phone) Close() error { return nil }

// agents is a Prober of servers that are in no process: each sandbox has one, with a session.
type agents struct {
	mu       sync.Mutex
	down     map[string]bool // the server does not answer
	lost     map[string]bool // its session is gone
	slow     map[string]int  // how many probes after a start until it answers
	stubborn bool            // it never comes up
	probes   int
	heals    int
}

func newAgents() *agents {
	return &agents{down: map[string]bool{}, lost: map[string]bool{}, slow: map[string]int{}}
}

func (a *agents) probed() (n int) { a.befall(func() { n = a.probes }); return n }
func (a *agents) healed() (n int) { a.befall(func() { n = a.heals }); return n }

func (a *agents) befall(do func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	do()
}

func (a *agents) Probe(_ context.Context, s sandbox.Sandbox, _ guest.Conn) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.probes++
	switch {
	case a.stubborn, a.down[s.ID]:
		return errors.New("connection refused")
	case a.slow[s.ID] > 0:
		a.slow[s.ID]--
		return errors.New("still starting")
	case a.lost[s.ID]:
		return errors.New("no such session")
	}
	return nil
}

func (a *agents) Heal(_ context.Context, s sandbox.Sandbox, _ guest.Conn) (replaced int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heals++
	if a.lost[s.ID] {
		replaced = 1
	}
	a.down[s.ID], a.lost[s.ID] = false, false
	return replaced, nil
}

// hung is a driver whose silent helpers take a call and never answer it.
type hung struct{ *machines }

func (h hung) Guest(ctx context.Context, id driver.ID) (guest.Conn, error) {
	h.mu.Lock()
	silent := h.dumb[id] > 0
	h.mu.Unlock()
	if silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.machines.Guest(ctx, id)
}

// Processes lists none: nothing is started in these machines.
func (p *phone) Processes(context.Context) ([]guest.Status, error) { return nil, nil }
