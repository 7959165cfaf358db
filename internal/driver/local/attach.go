package local

import (
	"context"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/guest"
)

// attached is the result of Options.Attach for one run of an instance.
type attached struct {
	run    *running // the first process of that run
	conn   guest.Conn
	cancel context.CancelFunc
	detach func()        // nil if there is nothing to detach
	ready  chan struct{} // closed at the end of attach
}

// attachments calls Options.Attach for each run of an instance, and ends it with the run.
type attachments struct{ d *Driver }

// attach calls Options.Attach for an instance, unless it has done so for this run. The caller holds the instance's
// lock, so that the instance is not stopped at the same time.
func (at attachments) attach(st driver.Status, spec driver.Spec) {
	if at.d.opts.Attach == nil {
		return
	}
	at.d.mu.Lock()
	run, was := at.d.running[st.ID], at.d.attached[st.ID]
	if at.d.closed || was != nil && was.run == run {
		at.d.mu.Unlock()
		return
	}
	ctx, cancel := context.WithCancel(at.d.ctx)
	a := &attached{run: run, cancel: cancel, ready: make(chan struct{})}
	at.d.attached[st.ID] = a
	at.d.mu.Unlock()
	defer close(a.ready)
	if was != nil {
		was.end() // it belongs to an earlier run
	}
	conn, err := at.d.Guest(ctx, st.ID)
	if err != nil {
		at.d.opts.Log.Warn("attach to an instance", "instance", st.ID, "error", err)
		at.unattach(st.ID, a)
		return
	}
	a.conn = conn
	a.detach = at.d.opts.Attach(ctx, st, spec, conn)
}

// unattach removes a failed attach, so that it can be tried again.
func (at attachments) unattach(id driver.ID, a *attached) {
	at.d.mu.Lock()
	defer at.d.mu.Unlock()
	if at.d.attached[id] == a {
		delete(at.d.attached, id)
	}
	a.cancel()
}

func (at attachments) isAttached(id driver.ID) bool {
	at.d.mu.Lock()
	defer at.d.mu.Unlock()
	a := at.d.attached[id]
	return a != nil && a.run == at.d.running[id]
}

// detach ends the goroutines and connections that serve an instance.
func (at attachments) detach(id driver.ID) {
	at.d.mu.Lock()
	a := at.d.attached[id]
	delete(at.d.attached, id)
	at.d.mu.Unlock()
	if a != nil {
		a.end()
	}
}

func (at attachments) detachAll() {
	at.d.mu.Lock()
	all := at.d.attached
	at.d.attached = map[driver.ID]*attached{}
	at.d.mu.Unlock()
	for _, a := range all {
		a.end()
	}
}

func (a *attached) end() {
	a.cancel()
	<-a.ready
	if a.detach != nil {
		a.detach()
	}
	if a.conn != nil {
		_ = a.conn.Close()
	}
}
