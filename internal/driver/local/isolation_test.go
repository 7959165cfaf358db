package local_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/testkit"
)

// output runs a command that must work.
func output(t testing.TB, d driver.Guester, id driver.ID, cmd guest.Cmd) string {
	t.Helper()
	r := run(t, d, id, cmd)
	if r.Code != 0 {
		t.Fatalf("%q ends with %d: %s%s", cmd.Argv, r.Code, r.Out, r.Err)
	}
	return r.Out
}

// users are whom commands run as.
var users = map[string]func(guest.Cmd) guest.Cmd{
	guest.Agent: func(c guest.Cmd) guest.Cmd { return c },
	guest.Root:  asRoot,
}

// Nothing that an instance can read names a place on the host.
func TestNothingOfTheHostIsShown(t *testing.T) {
	testkit.Proves(t, "E3")
	dir := t.TempDir()
	d := open(t, dir)
	s := spec()
	s.Mounts = []driver.Mount{{Source: programs(), Target: "/opt/programs"}}
	id := create(t, d, s).ID
	script := `cat /proc/self/mountinfo /proc/mounts /proc/self/cgroup /proc/1/cgroup /proc/1/cmdline /proc/cmdline /proc/swaps
		cat /proc/1/mountinfo /proc/1/environ /proc/1/maps /proc/1/stack 2>&1
		ls -la /proc/1/fd /proc/1/root /proc/1/exe /proc/1/cwd 2>&1; ls -la / /home /root /var /opt /etc /dev 2>&1
		env; hostname; cat /etc/passwd /etc/hosts /etc/resolv.conf`
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for user, as := range users {
		out := run(t, d, id, as(sh(script))).Out
		for what, leak := range map[string]string{
			"data directory": filepath.Dir(dir), "helper": helper, "its directory": programs(), "test": os.Args[0],
			"kernel's command line": strings.TrimSpace(string(cmdline)), "instance": string(id),
			"parent of cgroups": "/..", "home": "/root/",
		} {
			if leak != "" && strings.Contains(out, leak) {
				t.Errorf("as %s: the %s is shown: %q in\n%s", user, what, leak, linesWith(out, leak))
			}
		}
		if got := output(t, d, id, as(sh("hostname"))); strings.TrimSpace(got) == host {
			t.Errorf("as %s: the host's name is %s inside, too", user, got)
		}
		if !strings.Contains(out, "lowerdir=base") || !strings.Contains(out, "berth-guest") {
			t.Errorf("as %s: nothing was looked at:\n%s", user, out)
		}
	}
}

func linesWith(text, part string) string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

// The helper's own descriptors lead to the host: nobody inside gets at them.
func TestHelperIsOutOfReach(t *testing.T) {
	testkit.Proves(t, "E3")
	d := open(t, t.TempDir())
	id := create(t, d, spec()).ID
	for user, as := range users {
		for _, path := range []string{"environ", "fd/3", "fd/5", "root", "exe", "mem", "maps", "cwd", "map_files"} {
			r := run(t, d, id, as(sh("ls /proc/1/"+path+"/ || cat /proc/1/"+path+" || readlink /proc/1/"+path)))
			if r.Code == 0 || !strings.Contains(r.Err, "denied") && !strings.Contains(r.Err, "not permitted") {
				t.Errorf("as %s: /proc/1/%s: %d %s%s", user, path, r.Code, r.Out, r.Err)
			}
		}
		run(t, d, id, as(sh("kill -TERM 1; kill -KILL 1; kill -SEGV 1; kill -QUIT 1")))
		if got := output(t, d, id, sh("echo on")); got != "on\n" {
			t.Errorf("as %s: after signals to the helper: %q", user, got)
		}
	}
}

// A thread that runs a signal handler blocks all signals for that moment. The kernel then gives a signal
// that would end the process to another thread, and does not spare a first process as it does otherwise.
func TestRootsSignalsNeverEndTheHelper(t *testing.T) {
	testkit.Proves(t, "E3")
	d := open(t, t.TempDir())
	const flood = `
		flood() { i=0; while [ $i -lt 3000 ]; do for s in $*; do kill -$s 1 || exit 1; done; i=$((i+1)); done; }
		flood 23 35 64 & flood 15 2 1 10 & flood 14 26 29 30 16 12 13 27 & flood 32 33 34 & wait`
	for range 3 {
		id := create(t, d, spec()).ID
		if r := run(t, d, id, users[guest.Root](sh(flood))); r.Code != 0 {
			t.Fatalf("exit code %d: %s", r.Code, r.Err)
		}
		if got := output(t, d, id, sh("echo on")); got != "on\n" {
			t.Errorf("after signals to the helper: %q", got)
		}
	}
}

func TestPrivilegesAreBounded(t *testing.T) {
	testkit.Proves(t, "E3")
	d := open(t, t.TempDir())
	id := create(t, d, spec()).ID
	// chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind_service, sys_chroot, setfcap
	for user, caps := range map[string]string{guest.Agent: "0000000000000000", guest.Root: "00000000800404fb"} {
		status := output(t, d, id, users[user](sh("cat /proc/self/status; id -u")))
		for _, want := range []string{"NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t" + caps, "CapPrm:\t" + caps, "CapInh:\t0000000000000000", "CapAmb:\t0000000000000000"} {
			if !strings.Contains(status, want+"\n") {
				t.Errorf("as %s: no %q in\n%s", user, want, status)
			}
		}
	}
}

// The helper starts as nobody in its namespace, with every capability there; none of its threads stays so.
func TestEveryThreadOfTheHelperIsBounded(t *testing.T) {
	testkit.Proves(t, "E3")
	d := open(t, t.TempDir())
	id := create(t, d, spec()).ID
	output(t, d, id, sh("true")) // by now it has all of its threads
	proc := "/proc/" + strconv.Itoa(firstProcess(t, d, id))
	uids, err := os.ReadFile(proc + "/uid_map")
	if err != nil {
		t.Fatal(err)
	}
	ids := strings.Repeat("\t"+strings.Fields(string(uids))[1], 4)
	const caps = "00000000800404fb"
	wants := []string{
		"Uid:" + ids, "Gid:" + ids, "Groups:\t ", "NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t" + caps, "CapPrm:\t" + caps,
		"CapInh:\t0000000000000000", "CapAmb:\t0000000000000000",
	}
	threads, err := filepath.Glob(proc + "/task/*/status")
	if err != nil || len(threads) < 2 {
		t.Fatalf("threads %v, %v", threads, err)
	}
	for _, path := range threads {
		status, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(status), want+"\n") {
				t.Errorf("%s: no %q in\n%s", path, want, status)
			}
		}
	}
}

func TestForbiddenCallsAreRefused(t *testing.T) {
	testkit.Proves(t, "E3")
	d := open(t, t.TempDir())
	s := spec()
	s.Mounts = []driver.Mount{{Source: programs(), Target: "/opt/programs"}}
	id := create(t, d, s).ID
	refused := regexp.MustCompile(`operation not permitted|function not implemented|not supported`)
	for user, as := range users {
		lines := strings.Split(strings.TrimSpace(output(t, d, id, as(guest.Cmd{Argv: []string{"/opt/programs/attack"}}))), "\n")
		if len(lines) < 40 {
			t.Errorf("as %s: only %d tries: %q", user, len(lines), lines)
		}
		for _, line := range lines {
			name, result, _ := strings.Cut(line, ": ")
			if strings.HasPrefix(name, "allowed-") != (result == "ok") {
				t.Errorf("as %s: %s", user, line)
			}
			if result != "ok" && !refused.MatchString(result) {
				t.Errorf("as %s: %s was not refused but failed: %s", user, name, result)
			}
		}
	}
}

// The root inside can do what package managers do, in its own files.
func TestRootInsideOwnsItsFiles(t *testing.T) {
	d := open(t, t.TempDir())
	id := create(t, d, spec()).ID
	output(t, d, id, asRoot(sh(`set -e
		mkdir /srv && echo x >/srv/file && chown 1000:1000 /srv/file && chmod 4755 /srv/file
		echo "tool:x:1500:" >>/etc/group && mkdir -p /var/lib/tool && chown 33:33 /var/lib/tool`)))
	if got := output(t, d, id, sh("stat -c %u:%g /srv/file /var/lib/tool; cat /srv/file")); got != "1000:1000\n33:33\nx\n" {
		t.Errorf("got %q", got)
	}
	if r := run(t, d, id, sh("echo x >/srv/other || rm -f /etc/passwd")); r.Code == 0 {
		t.Error("the agent writes where only root may")
	}
	if r := run(t, d, id, asRoot(sh("touch /usr/bin/mine"))); !strings.Contains(r.Err, "Read-only") {
		t.Errorf("the host's programs can be changed: %s", r.Err)
	}
	if got := output(t, d, id, sh("ls /usr/local/bin /usr/local/lib /usr/local/sbin | grep -v : | tr -d '\\n'")); got != "" {
		t.Errorf("the host's /usr/local is shown: %q", got)
	}
}

// What listens on the host is reached from there, and not from inside.
func TestHostsServicesAreOutOfReach(t *testing.T) {
	testkit.Proves(t, "E3")
	d := open(t, t.TempDir())
	s := spec()
	s.Mounts = []driver.Mount{{Source: programs(), Target: "/opt/programs"}}
	id := create(t, d, s).ID
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "unix": "@berth-test-" + string(id)} {
		listener, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		argv := []string{"attack", "dial", network, listener.Addr().String()}
		if out, err := exec.Command(filepath.Join(programs(), argv[0]), argv[1:]...).CombinedOutput(); err != nil {
			t.Errorf("the host does not reach its own %s: %v %s", network, err, out)
		}
		argv[0] = "/opt/programs/attack"
		for user, as := range users {
			if r := run(t, d, id, as(guest.Cmd{Argv: argv})); r.Code == 0 || !strings.Contains(r.Out, "refused") {
				t.Errorf("as %s: %s is answered: %+v", user, network, r)
			}
		}
	}
}

// Two instances have nothing in common.
func TestInstancesAreApart(t *testing.T) {
	testkit.Proves(t, "E3")
	d := open(t, t.TempDir())
	a, b := create(t, d, spec()).ID, create(t, d, spec()).ID
	conn, err := d.Guest(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Start(t.Context(), "marker", sh("sleep 600 & sleep 601")); err != nil {
		t.Fatal(err)
	}
	processes := func(id driver.ID) string { return output(t, d, id, sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")) }
	if got := processes(b); strings.Contains(got, "601") {
		t.Errorf("another's processes are seen: %s", got)
	}
	if got := processes(a); !strings.Contains(got, "601") {
		t.Errorf("one's own processes are not seen: %s", got)
	}
	uids := map[string]bool{}
	for _, id := range []driver.ID{a, b} {
		uids[output(t, d, id, sh("cat /proc/self/uid_map"))] = true
		output(t, d, id, sh("test ! -e /tmp/mark && echo x >/tmp/mark && test ! -e /dev/shm/mark && echo x >/dev/shm/mark"))
		if got := output(t, d, id, sh("cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '")); got != "lo\n" {
			t.Errorf("network devices are %q", got)
		}
	}
	if d.Tier() == local.TierRoot && len(uids) != 2 { // other tiers have one range for all
		t.Errorf("two instances have one range of uids: %v", uids)
	}
}

// What whoever was root left behind is not followed when the instance starts again.
func TestLinksLeftBehindAreNotFollowed(t *testing.T) {
	d := open(t, t.TempDir())
	id := create(t, d, spec()).ID
	output(t, d, id, asRoot(sh(`set -e
		rm /etc/passwd && ln -s /etc/shadow-of-the-host /etc/passwd
		rm -r /etc/hostname && mkdir /etc/hostname
		rm /etc/group && mkfifo /etc/group`)))
	if err := d.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := output(t, d, id, sh("readlink /etc/passwd; test ! -e /etc/shadow-of-the-host && echo untouched")); got != "/etc/shadow-of-the-host\nuntouched\n" {
		t.Errorf("got %q", got)
	}
}

// Root inside can put anything in the place of a directory that is needed to start. It is moved aside, not followed.
func TestReplacedDirectoriesAreMadeAgain(t *testing.T) {
	d := open(t, t.TempDir())
	s := spec()
	s.Mounts = []driver.Mount{{Source: programs(), Target: "/opt/deep/programs"}}
	id := create(t, d, s).ID
	for name, trick := range map[string]string{
		"links":   "mv /workspace /kept && ln -s /etc /workspace && mv /home /homes && ln -s /etc /home && mv /opt/deep /opt/other && ln -s /etc /opt/deep",
		"files":   "rm -rf /workspace && echo text >/workspace && mv /home /homes2 && echo text >/home && mv /opt/deep /opt/other2 && mkfifo /opt/deep",
		"nothing": "rm -rf /workspace && mv /home /homes3",
	} {
		output(t, d, id, asRoot(guest.Cmd{Argv: []string{"sh", "-c", trick}, Dir: "/"}))
		for _, state := range []string{"running", "stopped"} {
			_, err := d.Files(t.Context(), id, files.WorkingDir)
			if !errors.Is(err, driver.ErrNoDirectory) || fault.CodeOf(err) != api.CodeNotADirectory {
				t.Errorf("%s, %s: %v", name, state, err)
			}
			if err := d.Stop(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.Start(t.Context(), id); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := output(t, d, id, sh("stat -c '%F %U' /workspace /home/agent; ls /opt/deep/programs | grep -c attack; echo x >file")); got != "directory agent\ndirectory agent\n1\n" {
			t.Errorf("%s: %q", name, got)
		}
		root, err := d.Files(t.Context(), id, files.WorkingDir)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		root.Close()
	}
	if got := output(t, d, id, sh("for f in /workspace.replaced-*; do readlink $f || cat $f; done")); !strings.Contains(got, "text") || !strings.Contains(got, "/etc") {
		t.Errorf("what was there is lost: %q", got)
	}
}

// An image is a base, too; what is missing in it is made.
func TestImageBase(t *testing.T) {
	image := filepath.Join(t.TempDir(), "image")
	for _, dir := range []string{"bin", "etc", "srv"} {
		if err := os.MkdirAll(filepath.Join(image, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.ReadFile(filepath.Join(programs(), "attack"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"bin/attack": program, "srv/file": []byte("of the image")} {
		if err := os.WriteFile(filepath.Join(image, name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d := open(t, t.TempDir(), func(o *local.Options) {
		o.Bases = func(name string) (string, error) {
			if name != "mine" {
				return "", os.ErrNotExist
			}
			return image, nil
		}
	})
	for _, name := range []string{image, "mine"} {
		s := spec()
		s.Base = name
		id := create(t, d, s).ID
		output(t, d, id, guest.Cmd{Argv: []string{"/bin/attack", "nothing"}})
		if got := run(t, d, id, guest.Cmd{Argv: []string{"sh", "-c", "true"}}); got.Code != guest.ExitNotFound {
			t.Errorf("base %s: a shell from nowhere: %+v", name, got)
		}
	}
	for _, name := range []string{"other", "/no/such/image", filepath.Join(image, "srv/file")} {
		s := spec()
		s.Base = name
		if _, err := d.Create(t.Context(), s); driver.Classify(err) != "invalid" {
			t.Errorf("base %s: %v", name, err)
		}
	}
	s := spec()
	s.Mounts = []driver.Mount{{Source: "/no/such/directory", Target: "/opt/x"}}
	if _, err := d.Create(t.Context(), s); driver.Classify(err) != "invalid" {
		t.Errorf("a mount of nothing: %v", err)
	}
}

func TestMountsAreReadOnly(t *testing.T) {
	tools := t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "file"), []byte("of the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := open(t, t.TempDir())
	s := spec()
	s.Mounts = []driver.Mount{{Source: tools, Target: "/opt/deep/tools"}}
	id := create(t, d, s).ID
	if got := output(t, d, id, sh("cat /opt/deep/tools/file")); got != "of the host" {
		t.Errorf("got %q", got)
	}
	if r := run(t, d, id, asRoot(sh("echo x >/opt/deep/tools/file"))); !strings.Contains(r.Err, "Read-only") {
		t.Errorf("a mount can be changed: %+v", r)
	}
}
