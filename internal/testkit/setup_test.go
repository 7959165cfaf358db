package testkit_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// machine is a made-up Debian: its programs are scripts that keep a log, its files lie below root.
type machine struct {
	t               *testing.T
	bin, root, logs string
	env             []string
}

// Each fake program notes its arguments; go also pretends to have, or to fetch, modules.
const (
	fakeGo = `#!/bin/sh
echo "go $*" >>"$LOGS/go"
case "$*" in
"env GOVERSION") echo "${FAKE_GO:-go1.26.8}" ;;
*"mod download")
	[ ! -e "$LOGS/modules" ] || exit 0
	[ "${GOPROXY:-}" != off ] || exit 1
	tries=$(($(cat "$LOGS/tries" 2>/dev/null || echo 0) + 1))
	echo "$tries" >"$LOGS/tries"
	[ "$tries" -gt "${FAKE_MODULE_FAILURES:-0}" ] || { echo "proxy says no"; exit 1; }
	: >"$LOGS/modules"
	;;
build*)
	[ -z "${FAKE_BUILD_FAILS:-}" ] || { echo "cannot build"; exit 1; }
	while [ "$1" != -o ]; do shift; done
	: >"$2"
	;;
esac
`
	fakeApt = `#!/bin/sh
echo "apt-get $*" >>"$LOGS/apt"
[ -z "${FAKE_APT_FAILS:-}" ] || { echo "mirror is down"; exit 100; }
`
	fakeID   = "#!/bin/sh\necho \"${FAKE_UID:-0}\"\n"
	nothing  = "#!/bin/sh\n"
	realOnes = "sh dirname mktemp rm cat tr sleep mkdir touch ln chmod sed mv"
)

// s3Server is where the S3 server of the tests is kept, of the version in tools/versitygw.mod.
const s3Server = "bin/tests/versitygw-v1.8.0"

// newMachine has everything that Berth's tests need.
func newMachine(t *testing.T) *machine {
	m := &machine{t: t, bin: t.TempDir(), root: t.TempDir(), logs: t.TempDir()}
	for _, name := range strings.Fields(realOnes) {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(m.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"go": fakeGo, "apt-get": fakeApt, "id": fakeID, "gcc": nothing, "make": nothing, "dockerd": nothing, "restic": nothing, "rclone": nothing, "debootstrap": nothing, "newuidmap": nothing, "node": nothing, "npm": nothing, "curl": nothing, "chromium": nothing, "nginx": nothing} {
		m.write(filepath.Join(m.bin, name), text)
	}
	for _, path := range []string{"usr/lib/postgresql/15/bin/initdb", "usr/include/features.h", "usr/bin/python3", "etc/ssl/certs/ca-certificates.crt", s3Server} {
		m.write(filepath.Join(m.root, path), "")
	}
	m.write(filepath.Join(m.logs, "modules"), "")
	return m
}

func (m *machine) write(path, text string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) remove(base string, paths ...string) {
	m.t.Helper()
	for _, path := range paths {
		if err := os.RemoveAll(filepath.Join(base, path)); err != nil {
			m.t.Fatal(err)
		}
	}
}

// setup runs the script and returns its exit code, what it said, and what it asked of apt-get.
func (m *machine) setup(purpose ...string) (code int, said, apt string) {
	m.t.Helper()
	cmd := exec.Command("../../scripts/setup", purpose...)
	cmd.Env = append([]string{"PATH=" + m.bin, "LOGS=" + m.logs, "BERTH_SETUP_ROOT=" + m.root, "BERTH_SETUP_PAUSE=0"}, m.env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		m.t.Fatal(err)
	}
	log, err := os.ReadFile(filepath.Join(m.logs, "apt"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out), string(log)
}

func TestSetup(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(m *machine)
		purpose string
		code    int
		says    []string
		apt     string // what apt-get install is asked for
	}{
		"nothing to do":     {purpose: "test"},
		"run needs less":    {change: func(m *machine) { m.remove(m.root, "usr"); m.remove(m.bin, "gcc") }, purpose: "run"},
		"no purpose":        {purpose: "dance", code: 1, says: []string{"usage: scripts/setup"}},
		"no Go":             {change: func(m *machine) { m.remove(m.bin, "go") }, purpose: "run", code: 1, says: []string{"Go 1.26 or newer", "download page"}},
		"old Go":            {change: func(m *machine) { m.env = []string{"FAKE_GO=go1.25.9"} }, purpose: "run", code: 1, says: []string{"This is go1.25.9"}},
		"new Go":            {change: func(m *machine) { m.env = []string{"FAKE_GO=go1.100rc1"} }, purpose: "run"},
		"Go of tomorrow":    {change: func(m *machine) { m.env = []string{"FAKE_GO=devel go1.28-abc"} }, purpose: "run"},
		"no PostgreSQL":     {change: func(m *machine) { m.remove(m.root, "usr/lib") }, purpose: "test", says: []string{"installing postgresql"}, apt: "postgresql"},
		"PostgreSQL beside": {change: func(m *machine) { m.remove(m.root, "usr/lib"); m.write(m.bin+"/initdb", nothing) }, purpose: "test"},
		"no compiler":       {change: func(m *machine) { m.remove(m.root, "usr/include"); m.remove(m.bin, "gcc") }, purpose: "test", apt: "gcc libc6-dev"},
		"no Docker":         {change: func(m *machine) { m.remove(m.bin, "dockerd") }, purpose: "bench", says: []string{"installing docker.io"}, apt: "docker.io"},
		"no sync tools":     {change: func(m *machine) { m.remove(m.bin, "restic", "rclone") }, purpose: "bench", apt: "restic rclone"},
		"no nginx":          {change: func(m *machine) { m.remove(m.bin, "nginx") }, purpose: "bench", says: []string{"services are not started"}, apt: "nginx-light"},
		"no newuidmap":      {change: func(m *machine) { m.remove(m.bin, "newuidmap") }, purpose: "test", apt: "uidmap"},
		"no debootstrap":    {change: func(m *machine) { m.remove(m.bin, "debootstrap") }, purpose: "test", apt: "debootstrap"},
		"no Node.js":        {change: func(m *machine) { m.remove(m.bin, "node", "npm") }, purpose: "test", says: []string{"installing nodejs npm"}, apt: "nodejs npm"},
		"no npm":            {change: func(m *machine) { m.remove(m.bin, "npm") }, purpose: "test", apt: "npm"},
		"no browser":        {change: func(m *machine) { m.remove(m.bin, "chromium") }, purpose: "test", apt: "chromium"},
		"no Python":         {change: func(m *machine) { m.remove(m.root, "usr/bin") }, purpose: "test", apt: "python3"},
		"run needs no node": {change: func(m *machine) { m.remove(m.bin, "node", "npm") }, purpose: "run"},
		"Docker off PATH":   {change: func(m *machine) { m.remove(m.bin, "dockerd"); m.write(m.root+"/usr/sbin/dockerd", "") }, purpose: "bench"},
		"no certificates":   {change: func(m *machine) { m.remove(m.root, "etc"); m.remove(m.logs, "modules") }, purpose: "run", apt: "ca-certificates"},
		"no S3 server":      {change: func(m *machine) { m.remove(m.root, "bin") }, purpose: "test", says: []string{"building versitygw"}},
		"S3 server fails": {
			change:  func(m *machine) { m.remove(m.root, "bin"); m.env = []string{"FAKE_BUILD_FAILS=1"} },
			purpose: "bench", code: 1, says: []string{"cannot build", "versitygw could not be built"},
		},
		"run needs no S3": {change: func(m *machine) { m.remove(m.root, "bin") }, purpose: "run"},
		"no make":         {change: func(m *machine) { m.remove(m.bin, "make") }, purpose: "make", apt: "make"},
		"make is there":   {change: func(m *machine) { m.remove(m.bin, "go") }, purpose: "make"},
		"ordinary user": {
			change:  func(m *machine) { m.remove(m.root, "usr/lib"); m.env = []string{"FAKE_UID=1000"} },
			purpose: "test", code: 1, says: []string{"missing: postgresql", "run: sudo apt-get install -y postgresql"},
		},
		"no apt": {
			change:  func(m *machine) { m.remove(m.root, "usr/lib"); m.remove(m.bin, "apt-get") },
			purpose: "test", code: 1, says: []string{"missing: postgresql", "package manager"},
		},
		"apt fails": {
			change:  func(m *machine) { m.remove(m.root, "usr/lib"); m.env = []string{"FAKE_APT_FAILS=1"} },
			purpose: "test", code: 1, says: []string{"again in 2 s", "mirror is down", "apt-get update does not work"},
		},
		"modules": {
			change:  func(m *machine) { m.remove(m.logs, "modules"); m.env = []string{"FAKE_MODULE_FAILURES=2"} },
			purpose: "run", says: []string{"downloading Go modules", "again in 8 s"},
		},
		"no modules": {
			change:  func(m *machine) { m.remove(m.logs, "modules"); m.env = []string{"FAKE_MODULE_FAILURES=9"} },
			purpose: "run", code: 1, says: []string{"proxy says no", "Check the network and GOPROXY"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			if c.change != nil {
				c.change(m)
			}
			code, said, apt := m.setup(c.purpose)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.says {
				if !strings.Contains(said, want) {
					t.Errorf("did not say %q", want)
				}
			}
			if len(c.says) == 0 && c.apt == "" && said != "" {
				t.Error("spoke without need")
			}
			if c.apt != "" && !strings.HasSuffix(strings.TrimSpace(apt), "--force-confold "+c.apt) {
				t.Errorf("apt-get was not asked for %q", c.apt)
			}
			if c.apt == "" && strings.Contains(apt, "install") {
				t.Error("apt-get install was called")
			}
			if t.Failed() {
				t.Logf("said %q\napt %q", said, apt)
			}
		})
	}
}

func TestSetupKeepsDebianFromStartingAServer(t *testing.T) {
	const conf = "etc/postgresql-common/createcluster.conf"
	for name, before := range map[string]string{"new": "", "chosen by somebody": "create_main_cluster = true\n"} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.remove(m.root, "usr/lib")
			want := "create_main_cluster = false\n"
			if before != "" {
				m.write(filepath.Join(m.root, conf), before)
				want = before
			}
			if code, said, _ := m.setup("test"); code != 0 {
				t.Fatalf("exit code %d, said %q", code, said)
			}
			if got, err := os.ReadFile(filepath.Join(m.root, conf)); string(got) != want {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
		})
	}
}

func TestSetupKeepsDebianFromStartingDocker(t *testing.T) {
	const policy, mask = "usr/sbin/policy-rc.d", "etc/systemd/system/docker.service"
	for name, c := range map[string]struct {
		before     string // the machine's own policy about services
		systemd    bool
		policy     string // while packages are installed
		masked     bool
		says, stay string
	}{
		"plain":        {policy: "#!/bin/sh\nexit 101\n", says: "services are not started"},
		"its own rule": {before: "#!/bin/sh\nexit 0\n", policy: "#!/bin/sh\nexit 0\n", stay: "#!/bin/sh\nexit 0\n"},
		"systemd":      {systemd: true, policy: "#!/bin/sh\nexit 101\n", masked: true, says: "systemctl unmask"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.remove(m.bin, "dockerd")
			m.write(filepath.Join(m.bin, "apt-get"), fakeApt+"cat \"$BERTH_SETUP_ROOT/"+policy+"\" >\"$LOGS/policy\"\n")
			if c.before != "" {
				m.write(filepath.Join(m.root, policy), c.before)
			}
			if c.systemd {
				m.write(filepath.Join(m.root, "run/systemd/system/there"), "")
			}
			if code, said, _ := m.setup("bench"); code != 0 || !strings.Contains(said, c.says) {
				t.Fatalf("exit code %d, said %q", code, said)
			}
			if got, err := os.ReadFile(filepath.Join(m.logs, "policy")); string(got) != c.policy {
				t.Errorf("while installing: %q, %v", got, err)
			}
			if got, err := os.ReadFile(filepath.Join(m.root, policy)); string(got) != c.stay || err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("afterwards: %q, %v", got, err)
			}
			if to, _ := os.Readlink(filepath.Join(m.root, mask)); (to == "/dev/null") != c.masked {
				t.Errorf("docker.service leads to %q", to)
			}
		})
	}
}

func TestSetupAsksForItsPurpose(t *testing.T) {
	if code, said, _ := newMachine(t).setup(); code != 1 || !strings.Contains(said, "usage") {
		t.Errorf("exit code %d, said %q", code, said)
	}
}
