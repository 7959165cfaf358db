package gateway

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// attach serves an instance. If the process has its listeners already, connections that the new spec allows go on.
func (p *process) attach(r *request, files []*os.File) (number int64, err error) {
	helper, err := r.split(&files)
	if err != nil {
		return 0, err
	}
	listeners, sockets, err := listenersOf(r.Ports, files)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave = false
	now := p.runs[r.Instance]
	if now == nil || !now.sharesSocket(sockets) {
		if now != nil { // of an earlier run of the instance
			p.end(r.Instance, now)
		}
		now = p.begin(r.Instance, helper)
	}
	for port, socket := range sockets {
		now.sockets[port] = socket
	}
	spec := *r.Spec
	spec.Log, spec.Meter = p.log, meter{now, p}
	if spec.Limits.Conns == 0 {
		spec.Limits.Conns = p.share
	}
	if err := now.ways.Serve(spec, listeners); err != nil {
		return 0, err
	}
	return now.number, nil
}

// split checks an attach request and removes the helper's descriptor from the files.
func (r *request) split(files *[]*os.File) (helper *os.File, err error) {
	all, want := *files, len(r.Ports)
	if r.Helper {
		want++
	}
	if r.Spec == nil || r.Instance == "" || len(all) != want || len(r.Ports) == 0 {
		return nil, errors.New("the request is incomplete")
	}
	if r.Helper {
		helper = all[len(all)-1]
	}
	*files = all[:len(r.Ports)]
	return helper, nil
}

// listenersOf returns the listeners and the inodes of their sockets.
func listenersOf(ports []uint16, files []*os.File) (map[uint16]net.Listener, map[uint16]uint64, error) {
	listeners, sockets := map[uint16]net.Listener{}, map[uint16]uint64{}
	for i, port := range ports {
		info, err := files[i].Stat()
		var l net.Listener
		if err == nil {
			l, err = net.FileListener(files[i])
		}
		if err != nil {
			for _, l := range listeners {
				_ = l.Close()
			}
			return nil, nil, fmt.Errorf("the listener of port %d: %w", port, err)
		}
		listeners[port], sockets[port] = l, info.Sys().(*syscall.Stat_t).Ino
	}
	return listeners, sockets, nil
}

// sharesSocket reports whether the run has one of these listeners. The helper of an instance hands out copies of the
// same listeners as long as it lives.
func (r *run) sharesSocket(sockets map[uint16]uint64) bool {
	for port, socket := range sockets {
		if r.sockets[port] == socket {
			return true
		}
	}
	return false
}

// begin adds a run. p.mu is held.
func (p *process) begin(instance string, helper *os.File) *run {
	p.lastRun++
	r := &run{number: p.lastRun, sockets: map[uint16]uint64{}}
	p.runs[instance] = r
	if helper == nil {
		return r
	}
	fd, err := syscall.Dup(int(helper.Fd()))
	if err != nil {
		return r
	}
	syscall.CloseOnExec(fd)
	_ = syscall.SetNonblock(fd, true)
	r.helper = os.NewFile(uintptr(fd), "helper")
	go func() {
		if awaitReadable(r.helper) == nil {
			r.ways.Close()
			p.forget(instance, r)
		}
	}()
	return r
}

// awaitReadable waits until a descriptor is readable, as a pidfd is when the process has ended. It returns an error if
// the file is closed before.
func awaitReadable(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool { return readable(int(fd)) })
}

// end removes a run and ends its connections in the background. p.mu is held.
func (p *process) end(instance string, r *run) (ended <-chan struct{}) {
	if p.runs[instance] == r {
		delete(p.runs, instance)
	}
	p.leaving[r] = struct{}{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.ways.Close()
		p.forget(instance, r)
	}()
	return done
}

// detach ends a run of an instance and waits until its connections have ended.
func (p *process) detach(instance string, number int64) {
	p.mu.Lock()
	r := p.runs[instance]
	if r == nil || number != 0 && r.number != number {
		p.mu.Unlock()
		return
	}
	ended := p.end(instance, r)
	p.mu.Unlock()
	<-ended
}

// forget removes a run whose connections have ended.
func (p *process) forget(instance string, r *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs[instance] == r {
		delete(p.runs, instance)
	}
	delete(p.leaving, r)
	if r.helper != nil {
		_ = r.helper.Close()
	}
}

// meter counts the traffic of a run and of all runs.
type meter struct {
	run *run
	of  *process
}

// Count implements egress.Meter.
func (m meter) Count(in, out int64) {
	m.run.traffic.Count(in, out)
	m.of.total.Count(in, out)
}

// readable reports whether a poll of the descriptor returns an event or an error.
func readable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if err != unix.EINTR {
			return n > 0 || err != nil
		}
	}
}
