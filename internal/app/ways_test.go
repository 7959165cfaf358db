package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fakellm"
)

// calling is a sandbox whose programs reach a model through a service of its template.
type calling struct {
	*testing.T
	env   []string
	data  string
	as    *syscall.Credential // the user of its servers; nil: root
	model *fakellm.Server
	box   box
}

// newCalling makes the sandbox, on a server that the caller starts.
func newCalling(t *testing.T) *calling {
	t.Helper()
	w := &calling{T: t, model: fakellm.New(t)}
	w.env = withConfig(t, local(t), fmt.Sprintf("[templates.calling]\nservices = {\"127.0.0.1:8788\" = %q}\n", w.model.URL))
	w.data = value(w.env, "BERTH_DATA_DIR")
	t.Cleanup(func() { w.noGateway(time.Minute) })
	return w
}

// newUsersCalling is newCalling with servers of an ordinary user.
func newUsersCalling(t *testing.T) *calling {
	t.Helper()
	w := newCalling(t)
	dir := publicDir(t)
	w.as, w.data = nobody(), filepath.Join(dir, "data")
	helper, file := filepath.Join(dir, "berth"), filepath.Join(dir, "berth.toml")
	program, err := os.ReadFile(testkit.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(value(w.env, "BERTH_CONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		writeProgram(helper, program), os.WriteFile(file, config, 0o644),
		os.Mkdir(w.data, 0o700), os.Chown(w.data, int(w.as.Uid), int(w.as.Gid)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.env = []string{
		"BERTH_DATA_DIR=" + w.data, "BERTH_LISTEN=127.0.0.1:0", "BERTH_API_KEY=" + testKey, "TMPDIR=" + w.data, "HOME=" + w.data,
		"BERTH_CONFIG=" + file, exeEnv + "=" + helper,
	}
	t.Cleanup(func() { // also after a failure
		cmd := exec.Command(helper, "down")
		cmd.Env, cmd.Dir, cmd.SysProcAttr = append(os.Environ(), w.env...), "/", &syscall.SysProcAttr{Credential: w.as}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s, %v", out, err)
		}
	})
	return w
}

// start starts a server.
func (w *calling) start() *process {
	w.Helper()
	cmd := exec.Command(os.Args[0])
	if w.as != nil {
		cmd = exec.Command("/proc/self/exe")
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: w.as}
	}
	p := startAs(w.T, cmd, w.env)
	w.box = box{w.T, p.client(w.T), "box"}
	return p
}

// call begins a call of the model, as a process that outlives the server.
func (w *calling) call(id, prompt string) {
	w.Helper()
	body, err := json.Marshal(map[string]any{
		"model": "m", "max_tokens": 1000, "stream": true, "messages": []map[string]string{{"role": "user", "content": prompt}},
	})
	if err != nil {
		w.Fatal(err)
	}
	request := fmt.Sprintf("POST /v1/messages HTTP/1.0\r\nHost: model\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	stream, err := w.box.c.Sandboxes.ExecStream(w.Context(), w.box.name, api.Exec{
		ExecID: id, Stdin: request, Command: []string{"bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8788 && cat >&3 && cat <&3"},
	})
	if err != nil {
		w.Fatal(err)
	}
	_ = stream.Close()
}

// said reads the answer of a call to its end: the text of the model, and whether the stream is whole.
func (w *calling) said(id string) (text string, whole bool) {
	w.Helper()
	stream, err := w.box.c.Sandboxes.Attach(w.Context(), w.box.name, id, 0)
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	var out strings.Builder
	for ev, err := stream.Next(); err == nil; ev, err = stream.Next() {
		if ev.Type == api.EventStdout {
			out.Write(ev.Data())
		}
	}
	for line := range strings.Lines(out.String()) {
		var event struct {
			Type  string
			Delta struct{ Text string }
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && json.Unmarshal([]byte(data), &event) == nil {
			text += event.Delta.Text
			whole = event.Type == "message_stop"
		}
	}
	return text, whole
}

// gateways returns the processes that serve the ways out for the data directory.
func (w *calling) gateways() (pids []int) {
	args, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range args {
		line, err := os.ReadFile(path)
		if err == nil && strings.HasPrefix(string(line), "berth-egress\x00"+w.data+"/") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// gateway is the one process, which it waits for.
func (w *calling) gateway() (pid int) {
	w.Helper()
	testkit.Eventually(w.T, patience, func() error {
		pids := w.gateways()
		if len(pids) != 1 {
			return fmt.Errorf("%d processes serve the ways out: %v", len(pids), pids)
		}
		pid = pids[0]
		return nil
	})
	return pid
}

// noGateway waits until nothing is left: no process and no socket.
func (w *calling) noGateway(patience time.Duration) {
	w.Helper()
	testkit.Eventually(w.T, patience, func() error {
		if pids := w.gateways(); len(pids) > 0 {
			return fmt.Errorf("left: %v", pids)
		}
		return nil
	})
}

const sentence = "The stream arrives whole and once, whatever becomes of the server."

// A server is killed in the middle of a model's stream, and the next one is replaced in the middle of the same stream.
// The call goes on: the stream arrives whole, once. Later servers count its bytes.
func TestServersComeAndGoAndAModelsStreamGoesOn(t *testing.T) {
	testkit.Proves(t, "X4")
	t.Parallel()
	t.Run("root", func(t *testing.T) {
		t.Parallel()
		newCalling(t).outlivesServers()
	})
	t.Run("user", func(t *testing.T) {
		t.Parallel()
		newUsersCalling(t).outlivesServers()
	})
}

func (w *calling) outlivesServers() {
	t := w.T
	p := w.start()
	make1(t, p.client(t), api.CreateSandbox{Name: "box", Template: "calling"})
	w.call("call", "[[hold middle@5]][[chunk 4]][[pace 20ms]][[say "+sentence+"]]")
	w.model.WaitHeld(t, "middle")
	gateway := w.gateway()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	p = w.start()
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
	p = w.start()
	w.model.Release("middle")
	if text, whole := w.said("call"); text != sentence || !whole {
		t.Errorf("the stream ended early (%v): %q", !whole, text)
	}
	if n := len(w.model.Requests()); n != 1 {
		t.Errorf("the model was called %d times", n)
	}
	if now := w.gateway(); now != gateway {
		t.Errorf("process %d serves the ways out, not %d", now, gateway)
	}
	w.counted(p, int64(len(sentence)))
	if err := w.box.c.Sandboxes.Delete(t.Context(), "box", client.SkipSave()); err != nil {
		t.Error(err)
	}
}

// counted waits until a server has counted that many bytes, of the sandbox and in its metrics.
func (w *calling) counted(p *process, least int64) {
	w.Helper()
	testkit.Eventually(w.T, patience, func() error {
		got, err := w.box.c.Sandboxes.Get(w.Context(), w.box.name)
		if err != nil || got.Traffic == nil || got.Traffic.BytesIn < least || got.Traffic.BytesOut == 0 {
			return fmt.Errorf("%+v, %v", got.Traffic, err)
		}
		if n := p.scrape(w.T)["berth_egress_received_bytes_total"]; int64(n) < got.Traffic.BytesIn {
			return fmt.Errorf("the metric counts %v, the sandbox %d", n, got.Traffic.BytesIn)
		}
		return nil
	})
}

// ask calls the model and waits for its answer.
func (w *calling) ask(id string) error {
	w.call(id, "[[say "+sentence+"]]")
	if text, whole := w.said(id); text != sentence || !whole {
		return fmt.Errorf("the answer is %q, whole: %v", text, whole)
	}
	return nil
}

// The process that serves the ways out is killed. The server starts another for every sandbox, and says so.
func TestKilledGatewayIsReplaced(t *testing.T) {
	testkit.Proves(t, "X4")
	t.Parallel()
	w := newCalling(t)
	p := w.start()
	make1(t, p.client(t), api.CreateSandbox{Name: "box", Template: "calling"})
	if err := w.ask("before"); err != nil {
		t.Fatal(err)
	}
	gateway := w.gateway()
	if err := syscall.Kill(gateway, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func() error {
		if p.scrape(t)["berth_egress_restarts_total"] != 1 || !strings.Contains(p.logs.String(), "the egress process has ended") {
			return fmt.Errorf("the end of the process is not reported")
		}
		return nil
	})
	if err := w.ask("after"); err != nil {
		t.Error(err)
	}
	if now := w.gateway(); now == gateway {
		t.Error("it was not killed")
	}
	if err := w.box.c.Sandboxes.Delete(t.Context(), "box", client.SkipSave()); err != nil {
		t.Error(err)
	}
}

// A program that embeds Berth serves the ways out itself, also of sandboxes that a server has made, and the other way
// round.
func TestEmbeddingProgramServesTheWaysOutItself(t *testing.T) {
	testkit.Proves(t, "V1")
	t.Parallel()
	w := newCalling(t)
	p := w.start()
	make1(t, p.client(t), api.CreateSandbox{Name: "box", Template: "calling"})
	w.gateway()
	for i, inside := range []string{"", "yes", ""} {
		if err := p.end(t); err != nil {
			t.Fatal(err)
		}
		w.env = append(unset(w.env, insideEnv), insideEnv+"="+inside)
		p = w.start()
		for j := range 3 { // the listener is served by one of the two
			if err := w.ask(fmt.Sprintf("ask-%d-%d", i, j)); err != nil {
				t.Error(err)
			}
		}
		if inside != "" {
			w.noGateway(patience)
		} else {
			w.gateway()
		}
		w.counted(p, 3*int64(len(sentence)))
	}
	if err := w.box.c.Sandboxes.Delete(t.Context(), "box", client.SkipSave()); err != nil {
		t.Error(err)
	}
}

// What serves the ways out ends with the sandboxes: by 'berth down' with a server and without one, and by itself.
func TestNothingServesTheWaysOutWithoutSandboxes(t *testing.T) {
	testkit.Proves(t, "X1")
	t.Parallel()
	w := newCalling(t)
	down := func(server string) {
		t.Helper()
		cmd := exec.Command(testkit.Binary(t), "down")
		cmd.Env = append(append(os.Environ(), w.env...), "BERTH_SERVER="+server)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "1 sandbox stopped\n") {
			t.Fatalf("%s, %v", out, err)
		}
		if pids := w.gateways(); len(pids) > 0 {
			t.Errorf("left after 'berth down': %v", pids)
		}
		if left, _ := filepath.Glob(filepath.Join(w.data, "egress", "*.sock")); len(left) > 0 {
			t.Errorf("left after 'berth down': %v", left)
		}
	}
	p := w.start()
	make1(t, p.client(t), api.CreateSandbox{Name: "box", Template: "calling"})
	w.gateway()
	down(p.url)
	if err := w.ask("again"); err != nil {
		t.Error(err)
	}
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
	w.gateway() // the sandbox runs
	down(p.url)

	p = w.start()
	if err := w.ask("last"); err != nil {
		t.Error(err)
	}
	w.gateway()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	endAll(t, filepath.Join(w.data, "local")) // without a word to what serves the way out
	w.noGateway(patience)
}

// The process has no rights that it does not need, and nothing of the server but its priority.
func TestGatewayHasFewRights(t *testing.T) {
	testkit.Proves(t, "E3")
	t.Parallel()
	w := newCalling(t)
	w.env = append(w.env, "SECRET_OF_THE_SERVER=canary")
	runtime.LockOSThread() // the server keeps a priority that it was given, so it is started with the ordinary one
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 0); err != nil {
		t.Fatal(err)
	}
	p := w.start()
	runtime.UnlockOSThread()
	make1(t, p.client(t), api.CreateSandbox{Name: "box", Template: "calling"})
	pid := w.gateway()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Uid:\t65534\t65534\t65534\t65534", "Gid:\t65534\t65534\t65534\t65534", "Groups:\t \n", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("no %q in:\n%s", want, status)
		}
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil || strings.Contains(string(environ), "canary") || strings.Contains(string(environ), testKey) {
		t.Errorf("the environment has secrets of the server: %q, %v", environ, err)
	}
	own, its := priorityOf(t, p.cmd.Process.Pid), priorityOf(t, pid)
	if its.nice != own.nice || its.oom != own.oom || own.nice < 0 && its.session != strconv.Itoa(own.nice) && its.session != "" {
		t.Errorf("its priority is %+v, the server's %+v", its, own)
	}
	info, err := os.Stat(filepath.Join(w.data, "egress", "v1.sock"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	if err := w.box.c.Sandboxes.Delete(t.Context(), "box", client.SkipSave()); err != nil {
		t.Error(err)
	}
}

// priority is how the kernel treats a process. The session's priority is empty where there is none.
type priority struct {
	nice         int
	oom, session string
}

func priorityOf(t *testing.T, pid int) priority {
	t.Helper()
	const zero = 20 // the kernel's value for nice 0
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	if err != nil {
		t.Fatal(err)
	}
	last := func(name string) string {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
		words := strings.Fields(string(text))
		return append([]string{""}, words...)[len(words)]
	}
	return priority{zero - nice, last("oom_score_adj"), last("autogroup")}
}
