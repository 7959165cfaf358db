package app_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
)

// box is a real sandbox behind a real server.
type box struct {
	*testing.T
	c    *client.Client
	name string
}

func (b box) sh(script string) api.ExecResult {
	b.Helper()
	res, err := b.c.Sandboxes.Exec(b.Context(), b.name, api.Exec{Command: api.Shell(script)})
	if err != nil {
		b.Fatalf("%s: %v", script, err)
	}
	return res
}

// says fails unless the script prints exactly this.
func (b box) says(script, want string) {
	b.Helper()
	if res := b.sh(script); res.Stdout != want {
		b.Errorf("%s: %q, not %q; exit %d, %s", script, res.Stdout, want, res.ExitCode, res.Stderr)
	}
}

func make1(t *testing.T, c *client.Client, want api.CreateSandbox) box {
	t.Helper()
	if _, _, err := c.Sandboxes.Create(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	return box{t, c, want.Name}
}

func TestLocalSandboxLives(t *testing.T) {
	testkit.Proves(t, "X1", "V3")
	t.Parallel()
	onLocal(t, func(t *testing.T, env []string) {
		p := start(t, env)
		b := make1(t, p.client(t), api.CreateSandbox{Name: "box", Env: map[string]string{"SECRET": "s3cret"}})
		b.says(`printf '%s %s %s' "$SECRET" "$HOME" "$PWD"`, "s3cret /home/agent /workspace")
		b.says(`id -u; echo kept > /workspace/f; echo kept > ~/h`, "1000\n")
		if res := b.sh("cat /proc/1/environ /proc/1/cmdline 2>/dev/null | tr '\\0' '\\n'"); strings.Contains(res.Stdout, "s3cret") {
			t.Errorf("pid 1 knows the secret: %q", res.Stdout)
		}
		for _, do := range []func(string) error{
			func(n string) error { _, err := b.c.Sandboxes.Stop(t.Context(), n); return err },
			func(n string) error {
				s, err := b.c.Sandboxes.Freeze(t.Context(), n)
				if got, _ := b.c.Sandboxes.Get(t.Context(), n); !s.Frozen || !got.Frozen {
					t.Error("a frozen sandbox does not look like one")
				}
				return err
			},
			func(n string) error { _, err := b.c.Sandboxes.Restart(t.Context(), n); return err },
			func(string) error { return p.end(t) },
		} {
			if err := do("box"); err != nil {
				t.Fatal(err)
			}
			if p.cmd.ProcessState != nil {
				p = start(t, env)
				b.c = p.client(t)
			}
			b.says("cat f ~/h", "kept\nkept\n")
			if got, err := b.c.Sandboxes.Get(t.Context(), "box"); err != nil || got.Frozen {
				t.Errorf("after use: %+v, %v", got, err)
			}
		}
		if err := b.c.Sandboxes.Delete(t.Context(), "box"); err != nil {
			t.Error(err)
		}
	})
}

// onLocal runs the test with real sandboxes on both databases.
func onLocal(t *testing.T, test func(t *testing.T, env []string)) {
	onBoth(t, func(t *testing.T, env []string) {
		test(t, append(local(t), unset(unset(env, "BERTH_DATA_DIR"), "BERTH_DEFAULT_DRIVER")...))
	})
}

func TestExitCodesOfLocalSandbox(t *testing.T) {
	t.Parallel()
	p := start(t, local(t))
	b := make1(t, p.client(t), api.CreateSandbox{Name: "box"})
	for _, c := range []struct {
		exec api.Exec
		code int
	}{
		{api.Exec{Command: api.Command{"no-such-program"}}, 127},
		{api.Exec{Command: api.Command{"/etc/passwd"}}, 126},
		{api.Exec{Command: api.Command{"/tmp"}}, 126},
		{api.Exec{Command: api.Command{"sleep", "60"}, TimeoutSeconds: 0.2}, 124},
		{api.Exec{Command: api.Shell("exit 42")}, 42},
		{api.Exec{Command: api.Shell("kill -9 $$")}, 137},
		{api.Exec{Command: api.Command{"id", "-u"}, User: "root"}, 0},
	} {
		res, err := b.c.Sandboxes.Exec(t.Context(), "box", c.exec)
		if err != nil || res.ExitCode != c.code {
			t.Errorf("%q: %+v, %v", c.exec.Command, res, err)
		}
	}
	_, _, err := b.c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "box", Profile: "full"})
	if problem(err).Code != api.CodeSpecMismatch {
		t.Errorf("a name that is taken: %v", err)
	}
}

// Files are the same whether the sandbox runs or not, seen from inside and from outside.
func TestFilesOfLocalSandbox(t *testing.T) {
	testkit.Proves(t, "V4")
	t.Parallel()
	p := start(t, local(t))
	b := make1(t, p.client(t), api.CreateSandbox{Name: "box"})
	sb := b.c.Sandboxes
	write := func(path, text string) {
		t.Helper()
		if _, _, err := sb.WriteFile(t.Context(), "box", "", path, strings.NewReader(text), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path, want string) {
		t.Helper()
		d, err := sb.ReadFile(t.Context(), "box", "", path, client.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close() }()
		if got, err := io.ReadAll(d); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	write("dir/a.txt", "from outside")
	b.says("cat dir/a.txt; stat -c %U dir/a.txt dir", "from outsideagent\nagent\n")
	b.sh("echo from inside > dir/b.txt; ln -s /etc/passwd leak; mkfifo pipe")
	read("dir/b.txt", "from inside\n")
	if _, err := sb.ReadFile(t.Context(), "box", "", "leak", client.ReadOptions{}); err == nil {
		t.Error("a link out of the workspace was followed")
	}
	if _, err := sb.Stop(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	read("dir/a.txt", "from outside")
	if s, err := sb.Get(t.Context(), "box"); err != nil || s.State != "stopped" {
		t.Errorf("reading files started it: %+v, %v", s, err)
	}
	write("dir/c.txt", "while it was stopped")
	b.says("cat dir/c.txt; stat -c %U dir/c.txt; ls dir", "while it was stoppedagent\na.txt\nb.txt\nc.txt\n")
}

// What a template lets out reaches where it should and nowhere else.
func TestEgressAndServicesOfATemplate(t *testing.T) {
	testkit.Proves(t, "E3")
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "upstream "+r.URL.Path) }))
	defer upstream.Close()
	env := local(t)
	file := filepath.Join(t.TempDir(), "berth.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, `
[templates.out]
egress = ["all"]
services = {"127.0.0.1:8788" = %q}
env = {FROM_TEMPLATE = "yes"}
`, upstream.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, append(env, "BERTH_CONFIG="+file))
	c := p.client(t)
	in, out := make1(t, c, api.CreateSandbox{Name: "in"}), make1(t, c, api.CreateSandbox{Name: "out", Template: "out"})
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(upstream.URL, "http://"))
	fetch := func(addr, path string) string { // bash speaks TCP by itself
		return fmt.Sprintf(`bash -c 'exec 3<>/dev/tcp/%s && printf "GET %s HTTP/1.0\r\nHost: x\r\n\r\n" >&3 && cat <&3' 2>&1 | tail -1`, addr, path)
	}
	out.says(`echo $FROM_TEMPLATE $HTTPS_PROXY`, "yes http://127.0.0.1:3128\n")
	if res := out.sh(fetch("127.0.0.1/8788", "/hello")); !strings.Contains(res.Stdout, "upstream /hello") {
		t.Errorf("the service: %q", res.Stdout)
	}
	if res := out.sh(fetch("127.0.0.1/3128", "http://127.0.0.1:"+port+"/")); strings.Contains(res.Stdout, "upstream") || res.Stdout == "" {
		t.Errorf("the host's loopback through the proxy: %q", res.Stdout)
	}
	for _, b := range []box{in, out} {
		if res := b.sh(fetch("127.0.0.1/"+port, "/")); strings.Contains(res.Stdout, "upstream") {
			t.Errorf("%s reaches the host's loopback: %q", b.name, res.Stdout)
		}
	}
	in.says(`echo $HTTPS_PROXY; bash -c ': <>/dev/tcp/127.0.0.1/3128' 2>/dev/null || echo none`, "\nnone\n")
	testkit.Eventually(t, patience, func() error {
		got, err := c.Sandboxes.Get(t.Context(), "out")
		if err != nil || got.Traffic == nil || got.Traffic.BytesIn == 0 || got.Traffic.BytesOut == 0 {
			return fmt.Errorf("%+v, %v", got.Traffic, err)
		}
		return nil
	})

	// The next server serves the same ways out.
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
	p = start(t, append(env, "BERTH_CONFIG="+file))
	out.c = p.client(t)
	if res := out.sh(fetch("127.0.0.1/8788", "/again")); !strings.Contains(res.Stdout, "upstream /again") {
		t.Errorf("the service after a restart: %q", res.Stdout)
	}

	// What is taken away from the template is gone from its sandboxes, those that run included.
	if err := os.WriteFile(file, []byte("[templates.out]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
	p = start(t, append(env, "BERTH_CONFIG="+file))
	out.c = p.client(t)
	gone := `for port in 8788 3128; do timeout 2 bash -c "exec 3<>/dev/tcp/127.0.0.1/$port && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && cat <&3"; done 2>/dev/null; echo "$HTTPS_PROXY"`
	out.says(gone, "\n")
}

func TestReadinessSaysHowSandboxesAreMade(t *testing.T) {
	t.Parallel()
	p := start(t, local(t))
	res, err := http.Get(p.url + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var body bytes.Buffer
	_, _ = body.ReadFrom(res.Body)
	if res.StatusCode != http.StatusOK || !strings.Contains(body.String(), "root") {
		t.Errorf("%d %s", res.StatusCode, body.String())
	}
}
