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

// attach calls Options.Attach for an instance, unless it has done so for this run. The caller holds the instance's
// lock, so that the instance is not stopped at the same time.
func (d *Driver) attach(st driver.Status, spec driver.Spec) {
	if d.opts.Attach == nil {
		return
	}
	d.mu.Lock()
	run, was := d.running[st.ID], d.attached[st.ID]
	if d.closed || was != nil && was.run == run {
		d.mu.Unlock()
		return
	}
	ctx, cancel := context.WithCancel(d.ctx)
	a := &attached{run: run, cancel: cancel, ready: make(chan struct{})}
	d.attached[st.ID] = a
	d.mu.Unlock()
	defer close(a.ready)
	if was != nil {
		was.end() // it belongs to an earlier run
	}
	conn, err := d.Guest(ctx, st.ID)
	if err != nil {
		d.opts.Log.Warn("attach to an instance", "instance", st.ID, "error", err)
		d.unattach(st.ID, a)
		return
	}
	a.conn = conn
	a.detach = d.opts.Attach(ctx, st, spec, conn)
}

// unattach removes a failed attach, so that it can be tried again.
func (d *Driver) unattach(id driver.ID, a *attached) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.attached[id] == a {
		delete(d.attached, id)
	}
	a.cancel()
}

func (d *Driver) isAttached(id driver.ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.attached[id]
	return a != nil && a.run == d.running[id]
}

// detach ends the goroutines and connections that serve an instance.
func (d *Driver) detach(id driver.ID) {
	d.mu.Lock()
	a := d.attached[id]
	delete(d.attached, id)
	d.mu.Unlock()
	if a != nil {
		a.end()
	}
}

func (d *Driver) detachAll() {
	d.mu.Lock()
	all := d.attached
	d.attached = map[driver.ID]*attached{}
	d.mu.Unlock()
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
