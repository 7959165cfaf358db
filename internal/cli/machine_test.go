package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit/ptytest"
)

// machine is what the fake server's sandboxes are: commands run as processes of this test, in one folder.
type machine struct {
	dir string

	mu    sync.Mutex
	procs []*testProcess
	cut   int // how many more streams break off after one event

	refusals []api.Code       // what the next calls of terminal and stdin are answered with
	notice   string           // what answers about files say happened to them
	archive  func() io.Reader // what every folder is as an archive; nil: what is in it
}

// newMachine is a fake server whose sandbox, box, runs commands.
func newMachine(t testing.TB) *fakeServer {
	t.Helper()
	f := newFakeServer(t)
	f.machine = &machine{dir: t.TempDir()}
	t.Cleanup(f.machine.end)
	f.sandboxes = []api.Sandbox{{ID: firstID, Name: "box", State: "running", Driver: "local", Template: "default"}}
	return f
}

// testProcess is one command.
type testProcess struct {
	id    string
	want  api.Exec
	cmd   *exec.Cmd
	input io.WriteCloser
	term  *os.File

	mu      sync.Mutex
	changed chan struct{}
	events  []api.ExecEvent
	next    int64
	exit    *api.ExecExit
}

func (m *machine) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.procs {
		p.kill(syscall.SIGKILL)
	}
}

func (m *machine) find(id string) *testProcess {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.procs {
		if p.id == id {
			return p
		}
	}
	return nil
}

// newest is what was started last.
func (m *machine) newest() *testProcess {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.procs[len(m.procs)-1]
}

func (m *machine) start(want api.Exec) *testProcess {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &testProcess{id: cmp.Or(want.ExecID, fmt.Sprintf("exec-%d", len(m.procs)+1)), want: want, changed: make(chan struct{})}
	m.procs = append(m.procs, p)
	p.add(api.ExecEvent{Type: api.EventStarted, ExecID: p.id})
	argv := want.Command
	if slices.Equal(argv, api.LoginShell()) {
		argv = api.Command{"sh", "-i"} // the same on every machine that tests run on
	}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Dir = m.dir
	p.cmd.Env = append(os.Environ(), "PS1=$ ")
	for name, value := range want.Env {
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.run()
	return p
}

func (p *testProcess) run() {
	var streams []io.Reader
	var ours []io.Closer
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			panic(err)
		}
		return r, w
	}
	if size := p.want.Terminal; size != nil {
		master, tty, err := ptytest.Open()
		if err != nil {
			panic(err)
		}
		p.resize(master, *size)
		p.term, p.input = master, master
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr.Setctty = tty, tty, tty, true
		streams, ours = []io.Reader{master}, []io.Closer{tty}
	} else {
		outR, outW := pipe()
		errR, errW := pipe()
		p.cmd.Stdout, p.cmd.Stderr = outW, errW
		streams, ours = []io.Reader{outR, errR}, []io.Closer{outW, errW}
		if p.want.OpenStdin {
			r, w := pipe()
			p.cmd.Stdin, p.input = r, w
			ours = append(ours, r)
		}
	}
	err := p.cmd.Start()
	for _, c := range ours {
		_ = c.Close()
	}
	var wg sync.WaitGroup
	for i, r := range streams {
		wg.Go(func() { p.read(r, []string{api.EventStdout, api.EventStderr}[i]) })
	}
	go func() {
		wg.Wait()
		p.finish(err)
	}()
	if s := p.want.TimeoutSeconds; s > 0 {
		time.AfterFunc(time.Duration(s*float64(time.Second)), func() { p.late() })
	}
}

func (p *testProcess) read(r io.Reader, kind string) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			event := api.ExecEvent{Type: kind}
			event.SetData(slices.Clone(buf[:n]))
			p.add(event)
		}
		if err != nil {
			return
		}
	}
}

func (p *testProcess) add(event api.ExecEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next += int64(len(event.Data()))
	event.Next = p.next
	p.events = append(p.events, event)
	if event.ExecExit != nil {
		p.exit = event.ExecExit
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *testProcess) late() {
	p.mu.Lock()
	over := p.exit != nil
	if !over {
		p.exit = &api.ExecExit{ExitCode: 124, Signal: "KILL", Reason: "it took longer than its timeout"}
	}
	p.mu.Unlock()
	if !over {
		p.kill(syscall.SIGKILL)
	}
}

func (p *testProcess) finish(failed error) {
	exit := &api.ExecExit{}
	switch {
	case errors.Is(failed, fs.ErrPermission):
		*exit = api.ExecExit{ExitCode: 126, Reason: p.want.Command[0] + ": permission denied"}
	case failed != nil:
		*exit = api.ExecExit{ExitCode: 127, Reason: p.want.Command[0] + ": not found"}
	default:
		_ = p.cmd.Wait()
		status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
		if exit.ExitCode = status.ExitStatus(); status.Signaled() {
			exit.ExitCode, exit.Signal = 128+int(status.Signal()), strings.TrimPrefix(unix.SignalName(status.Signal()), "SIG")
		}
	}
	p.mu.Lock()
	if p.exit != nil {
		exit = p.exit
	}
	p.mu.Unlock()
	p.add(api.ExecEvent{Type: api.EventExit, ExecExit: exit})
}

func (p *testProcess) kill(sig syscall.Signal) {
	if p.cmd.Process != nil {
		_ = syscall.Kill(-p.cmd.Process.Pid, sig)
	}
}

func (p *testProcess) resize(master *os.File, size api.TermSize) {
	_ = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(size.Rows), Col: uint16(size.Cols)})
}

// from yields the events behind the offset as they come, until the exit.
func (p *testProcess) from(r *http.Request, after int64, yield func(api.ExecEvent) bool) {
	for i := 0; ; {
		p.mu.Lock()
		events, changed := p.events[i:], p.changed
		p.mu.Unlock()
		for _, e := range events {
			i++
			if e.Next > after || e.Type == api.EventExit || after == 0 {
				if !yield(e) || e.Type == api.EventExit {
					return
				}
			}
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func (p *testProcess) status() api.ExecStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	return api.ExecStatus{
		ExecID: p.id, Command: p.want.Command, Terminal: p.want.Terminal != nil, Running: p.exit == nil,
		StartedAt: birth, End: p.next, Exit: p.exit,
	}
}

// routes are the machine's part of the server.
func (m *machine) routes(mux *http.ServeMux) {
	const base = "/api/v1/sandboxes/{id}/exec"
	mux.HandleFunc("POST "+base, func(w http.ResponseWriter, r *http.Request) {
		var want api.Exec
		if err := json.NewDecoder(r.Body).Decode(&want); err != nil {
			refuse(w, api.CodeInvalidRequest, err.Error())
			return
		}
		m.stream(w, r, m.start(want), 0)
	})
	mux.HandleFunc("GET "+base, func(w http.ResponseWriter, _ *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		list := api.List[api.ExecStatus]{}
		for _, p := range slices.Backward(m.procs) {
			list.Items = append(list.Items, p.status())
		}
		reply(w, 200, list)
	})
	of := func(method, rest string, do func(w http.ResponseWriter, r *http.Request, p *testProcess)) {
		mux.HandleFunc(method+" "+base+"/{exec}"+rest, func(w http.ResponseWriter, r *http.Request) {
			if p := m.find(r.PathValue("exec")); p != nil {
				do(w, r, p)
				return
			}
			refuse(w, api.CodeNoSuchExec, fmt.Sprintf("there is no command %q", r.PathValue("exec")))
		})
	}
	of("GET", "", func(w http.ResponseWriter, _ *http.Request, p *testProcess) { reply(w, 200, p.status()) })
	of("GET", "/stream", func(w http.ResponseWriter, r *http.Request, p *testProcess) {
		var after int64
		_, _ = fmt.Sscan(r.URL.Query().Get("after"), &after)
		m.stream(w, r, p, after)
	})
	of("POST", "/signal", func(w http.ResponseWriter, r *http.Request, p *testProcess) {
		var want api.ExecSignal
		_ = json.NewDecoder(r.Body).Decode(&want)
		p.kill(unix.SignalNum("SIG" + want.Signal))
		w.WriteHeader(http.StatusNoContent)
	})
	of("POST", "/stdin", func(w http.ResponseWriter, r *http.Request, p *testProcess) {
		if m.refuses(w) {
			return
		}
		n, err := io.Copy(p.input, r.Body)
		if err != nil {
			refuse(w, api.CodeConflict, "it takes no input any more")
			return
		}
		if r.URL.Query().Get("close") == "true" {
			_ = p.input.Close()
		}
		reply(w, 200, api.ExecWritten{Written: n})
	})
	mux.HandleFunc("GET /api/v1/sandboxes/{id}/terminal", m.terminal)
	m.fileRoutes(mux)
}

// refuses answers with the next refusal, if there is one.
func (m *machine) refuses(w http.ResponseWriter) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.refusals) == 0 {
		return false
	}
	refuse(w, m.refusals[0], "not now")
	m.refusals = m.refusals[1:]
	return true
}

func (m *machine) stream(w http.ResponseWriter, r *http.Request, p *testProcess, after int64) {
	m.mu.Lock()
	cut := m.cut > 0
	m.cut--
	m.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set(api.HeaderExecID, p.id)
	control := http.NewResponseController(w)
	_ = control.Flush()
	p.from(r, after, func(e api.ExecEvent) bool {
		data, _ := json.Marshal(e)
		fmt.Fprintf(w, "data: %s\n\n", data)
		_ = control.Flush()
		if cut && e.Type != api.EventStarted {
			panic(http.ErrAbortHandler)
		}
		return true
	})
}
