package app_test

import (
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// attack is one thing that a process may try. In its words {first} stands for the first process: on the
// machine for another process of the same user. {dir} is a directory to work in; the others are in spot.
type attack struct {
	name  string
	words []string // of the attacker
	input string   // lines of its standard input
	root  bool     // on the machine root tries it, else a user without any rights
	apart uintptr  // namespaces that root gets there, so that the machine stays as it is
	loot  string   // what it has to print to have succeeded
	agent bool     // in the sandbox only the agent tries it, else root does, too
	kills bool     // being killed is a way to be stopped
}

// spot is what can be attacked on this machine.
type spot struct {
	*arena
	box    api.Sandbox
	secret string
	files  []string // that hold the secret
	words  map[string]string
}

// Each attack succeeds as a plain process, which proves that it works on this machine, and fails in a
// sandbox, as the agent and as root. It runs alone: one attack kills all processes of its user, and other tests have some.
func TestAttacksFailInASandbox(t *testing.T) {
	testkit.Proves(t, "E3")
	s := newSpot(t)
	all := s.attacks()
	t.Logf("%d attacks", len(all))
	for _, a := range all {
		t.Run(a.name, func(t *testing.T) {
			here := *s
			sub := *s.arena
			sub.T, here.arena = t, &sub
			here.both(a)
		})
	}
	s.works(s.box.Name, 1)
}

func newSpot(t *testing.T) *spot {
	a := newArena(t, "")
	s := &spot{arena: a, box: a.box("box", ""), secret: "canary-" + strconv.Itoa(os.Getpid()) + "-of-the-host"}
	s.words = map[string]string{"{data}": a.data}
	s.hide()
	s.listen()
	s.share()
	s.run("box", api.Exec{Command: api.Shell("mkdir -p /tmp/agent")})
	s.sh("box", "root", "mkdir -p /tmp/root")
	return s
}

// hide puts files with the secret everywhere on the machine where something private may be.
func (s *spot) hide() {
	for _, dir := range []string{s.data, "/root", "/home", "/etc", "/usr/local", "/opt", "/var/lib", "/tmp", "/run", "/dev/shm"} {
		f, err := os.CreateTemp(dir, "berth-attack-")
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { _ = os.Remove(f.Name()) })
		if _, err := f.WriteString(s.secret); err != nil {
			s.Fatal(err)
		}
		if err := f.Truncate(4096); err != nil { // as large as a disk's block
			s.Fatal(err)
		}
		_ = f.Close()
		s.files = append(s.files, f.Name())
	}
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, s.files[0], 0)
	if err != nil {
		s.Fatal(err)
	}
	s.words["{handle type}"], s.words["{handle}"] = strconv.Itoa(int(handle.Type())), hex.EncodeToString(handle.Bytes())
	s.words["{file}"] = s.files[0]
	device := loopDevice(s.T, s.files[0])
	s.words["{major}"], s.words["{minor}"] = strconv.Itoa(int(unix.Major(device))), strconv.Itoa(int(unix.Minor(device)))
}

// listen tells the secret to whoever asks on the machine's network.
func (s *spot) listen() {
	name := "@berth-attack-" + strconv.Itoa(os.Getpid())
	path := filepath.Join(s.public, "socket")
	s.words["{tcp}"] = tell(s.T, "tcp4", "127.0.0.1:0", s.secret).String()
	s.words["{any}"] = net.JoinHostPort(ownAddress(s.T), strconv.Itoa(tell(s.T, "tcp4", "0.0.0.0:0", s.secret).(*net.TCPAddr).Port))
	s.words["{udp}"] = tellUDP(s.T, s.secret).String()
	s.words["{abstract}"], s.words["{socket}"] = name, path
	tell(s.T, "unix", name, s.secret)
	tell(s.T, "unix", path, s.secret)
	if err := os.Chmod(path, 0o777); err != nil {
		s.Fatal(err)
	}
}

// ownAddress is one of the machine's own that is not the loopback's: what is sent there does not leave it.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range all {
		if ip, ok := addr.(*net.IPNet); ok && !ip.IP.IsLoopback() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	t.Fatal("this machine has no address but the loopback's")
	return ""
}

// share makes things of the machine that processes share without a file.
func (s *spot) share() {
	key := 0x62000000 + os.Getpid()
	id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o666)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	memory, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		s.Fatal(err)
	}
	copy(memory, s.secret)
	if err := unix.SysvShmDetach(memory); err != nil {
		s.Fatal(err)
	}
	queue := "berth-attack-" + strconv.Itoa(os.Getpid())
	if err := makeQueue(queue); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = unlinkQueue(queue) })
	s.words["{segment}"], s.words["{queue}"] = strconv.Itoa(key), queue
}

// both runs one attack on the machine and in the sandbox.
func (s *spot) both(a attack) {
	s.Helper()
	var who *syscall.Credential
	if !a.root {
		who = nobody()
	}
	if code, out := s.onMachine(a, who, s.victim(who, s.secret)); code != 0 || !strings.Contains(out, a.loot) {
		s.Errorf("a plain process does not succeed, so it proves nothing: exit code %d, %q", code, out)
	}
	v := s.victim(who, s.secret) // another one: the first may be dying
	for _, user := range []string{"agent", "root"} {
		if user == "agent" || !a.agent {
			s.inside(a, user, v)
		}
	}
	if !v.alive() {
		s.Error("a process of the machine was killed from a sandbox")
	}
}

func (s *spot) onMachine(a attack, who *syscall.Credential, v *victim) (int, string) {
	s.Helper()
	dir, err := os.MkdirTemp(s.public, "plain-")
	if err != nil {
		s.Fatal(err)
	}
	if who != nil {
		err = os.Chown(dir, int(who.Uid), int(who.Gid))
	}
	if err != nil {
		s.Fatal(err)
	}
	sys := &syscall.SysProcAttr{Credential: who, Unshareflags: a.apart}
	pid := strconv.Itoa(v.cmd.Process.Pid)
	return s.plain(sys, s.fill(a.input, pid, pid, dir), s.fillAll(a.words, pid, pid, dir)...)
}

// inside runs the attack in the sandbox, where it has to end in being stopped, and nothing else.
func (s *spot) inside(a attack, user string, v *victim) {
	s.Helper()
	dir := "/tmp/" + user
	pid := strconv.Itoa(v.cmd.Process.Pid)
	words := s.fillAll(a.words, pid, "1", dir)
	res := s.run("box", api.Exec{
		Command: append([]string{"/workspace/attacker"}, words...), User: user, Stdin: s.fill(a.input, pid, "1", dir),
	})
	out := res.Stdout + res.Stderr
	killed := a.kills && res.Signal != ""
	switch {
	case strings.Contains(out, s.secret):
		s.Errorf("as %s it tells the secret: %q", user, out)
	case a.loot != "" && res.ExitCode == 0 && !strings.Contains(out, a.loot):
	case res.ExitCode != 1 && !killed:
		s.Errorf("as %s it is not stopped: %+v", user, res)
	case res.ExitCode == 1 && !strings.Contains(out, "stopped: "):
		s.Errorf("as %s it did not come to trying: %+v", user, res)
	}
}

func (s *spot) fillAll(words []string, pid, first, dir string) []string {
	filled := make([]string, len(words))
	for i, word := range words {
		filled[i] = s.fill(word, pid, first, dir)
	}
	return filled
}

func (s *spot) fill(text, pid, first, dir string) string {
	pairs := []string{"{pid}", pid, "{first}", first, "{dir}", dir}
	for name, value := range s.words {
		pairs = append(pairs, name, value)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// attacks is the table.
func (s *spot) attacks() []attack {
	all := s.onFiles()
	for _, more := range [][]attack{onProcesses(), s.onKernel(), onSpaces(), onCalls(), onNetwork(), s.onPrivileges()} {
		all = append(all, more...)
	}
	return all
}

// onFiles try to get at files of the machine.
func (s *spot) onFiles() []attack {
	var all []attack
	for _, file := range s.files {
		all = append(all, attack{name: "read a file in " + filepath.Dir(file), words: []string{"read", file}, root: true, loot: s.secret})
	}
	return append(all,
		attack{name: "read the passwords", words: []string{"read", "/etc/shadow"}, root: true},
		attack{name: "read a file by way of the first process's root", words: []string{"read", "/proc/{first}/root{file}", "/proc/self/root{file}"}, root: true, loot: s.secret},
		attack{name: "read a file by way of another process's root", words: []string{"read", "/proc/{pid}/root{file}", "/proc/{pid}/cwd{file}"}, root: true, loot: s.secret},
		attack{name: "read a file by its handle", words: []string{"handle", "{handle type}", "{handle}", "{data}", "/", "/workspace", "/usr"}, root: true, loot: s.secret},
		attack{name: "read a file after a second chroot", words: []string{"chroot", "{dir}/jail", "{file}"}, root: true, loot: s.secret},
		attack{name: "read the disk by a device of one's own", words: []string{"device", "block", "{major}", "{minor}", "{dir}"}, root: true, loot: s.secret},
		attack{name: "read the kernel's messages by a device of one's own", words: []string{"device", "character", "1", "11", "{dir}"}, root: true},
		attack{name: "make a whiteout of an overlay", words: []string{"whiteout", "{dir}"}, root: true},
		attack{name: "mark a directory for an overlay", words: []string{"opaque", "{dir}"}, root: true},
		attack{name: "find the server's directory or program", input: s.data + "\n" + value(s.env, exeEnv) + "\n" + testKey,
			words: []string{"search", "/proc/{first}", "/proc/self", "/proc/sys/kernel", "/proc/mounts", "/proc/net", "/proc/swaps", "/proc/locks", "/dev", "/run", "/etc", "/var"}, root: true},
		attack{name: "find what is mounted from where", words: []string{"read", "/proc/self/mountinfo"}, loot: rootSource(s.T)},
		attack{name: "find the sandbox's cgroup", words: []string{"read", "/proc/" + s.guest("box") + "/cgroup", "/proc/1/cgroup", "/proc/self/cgroup"}, loot: s.box.ID},
	)
}

// rootSource is what the machine's root is mounted from.
func rootSource(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); f[4] == "/" {
			_, rest, _ := strings.Cut(line, " - ")
			return strings.Join(strings.Fields(rest)[:2], " ")
		}
	}
	t.Fatal("there is no root")
	return ""
}

// onProcesses try to get at processes: of the machine, and at the sandbox's first one.
func onProcesses() []attack {
	all := []attack{
		{name: "see processes", words: []string{"processes"}, loot: " hold "},
		{name: "kill a process", words: []string{"kill", "{pid}", "9"}},
		{name: "kill everybody", words: []string{"everyone", "{pid}"}},
		{name: "trace a process", words: []string{"trace", "{pid}"}},
		{name: "trace the first process", words: []string{"trace", "{first}"}},
		{name: "read the memory of the first process", words: []string{"peek", "{first}"}},
		{name: "take a descriptor of the first process", words: []string{"steal", "{first}"}},
		{name: "list the memory of the first process", words: []string{"list", "/proc/{first}/map_files"}, root: true},
		{name: "list the namespaces of a process", words: []string{"list", "/proc/{pid}/ns"}},
		{name: "enter the namespaces of the first process", words: []string{"setns", "uts", "/proc/{first}/ns/uts"}, root: true},
		{name: "open the memory of the first process", words: []string{"open", "/proc/{first}/mem"}},
	}
	for _, name := range []string{"environ", "maps", "auxv", "numa_maps", "smaps", "personality", "stack", "syscall", "io", "task/*/environ", "fdinfo/0"} {
		root := name == "stack"
		all = append(all, attack{name: "read " + name + " of the first process", words: []string{"read", "/proc/{first}/" + name}, root: root})
	}
	for _, name := range []string{"root", "cwd", "exe", "fd/0", "ns/net", "ns/mnt", "ns/user"} {
		all = append(all, attack{name: "follow " + name + " of the first process", words: []string{"link", "/proc/{first}/" + name}})
	}
	for _, name := range []string{"environ", "cmdline", "status", "maps"} {
		all = append(all, attack{name: "read " + name + " of a process", words: []string{"read", "/proc/{pid}/" + name}})
	}
	return all
}

// onKernel try to read or to set what is the whole machine's.
func (s *spot) onKernel() []attack {
	var all []attack
	for _, name := range []string{
		"cmdline", "config.gz", "interrupts", "iomem", "ioports", "kallsyms", "kcore", "keys", "key-users", "kpagecount", "kpageflags",
		"modules", "partitions", "sched_debug", "slabinfo", "timer_list", "vmallocinfo",
	} {
		if data, err := os.Open("/proc/" + name); err == nil { // not every kernel has all of them
			_ = data.Close()
			all = append(all, attack{name: "read " + name + " of the kernel", words: []string{"read", "/proc/" + name}, root: true})
		}
	}
	for _, path := range []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname", "/proc/sys/vm/overcommit_memory",
		"/proc/sys/net/ipv4/ip_forward", "/proc/sys/fs/file-max", "/sys/kernel/rcu_expedited", "/sys/kernel/uevent_helper", "/proc/irq/default_smp_affinity",
	} {
		if _, err := os.Stat(path); err == nil {
			all = append(all, attack{name: "set " + path, words: []string{"rewrite", path}, root: true})
		}
	}
	name, err := os.Hostname()
	if err != nil {
		s.Fatal(err)
	}
	return append(all, attack{name: "learn the machine's name", words: []string{"hostname"}, loot: "name " + name + "."})
}

// onSpaces try to make, enter and change namespaces and mounts.
func onSpaces() []attack {
	var all []attack
	for _, way := range []string{"clone", "clone3", "unshare"} {
		all = append(all, attack{name: way + " a user namespace", words: []string{way, "user"}})
		for _, kind := range []string{"mnt", "pid", "net", "ipc", "uts", "cgroup", "time"} {
			if way == "unshare" && kind == "pid" {
				continue // nothing could run on in it
			}
			all = append(all, attack{name: way + " a namespace of kind " + kind, words: []string{way, kind}, root: true})
		}
	}
	for _, kind := range []string{"net", "uts", "pid", "cgroup"} {
		all = append(all, attack{name: "enter a namespace of kind " + kind, words: []string{"setns", kind, "/proc/self/ns/" + kind}, root: true})
	}
	for name, words := range map[string][]string{
		"mount memory":             {"mount", "tmpfs", "none", "{dir}"},
		"mount processes":          {"mount", "proc", "proc", "{dir}"},
		"mount cgroups":            {"mount", "cgroup2", "none", "{dir}"},
		"mount the kernel's files": {"mount", "sysfs", "none", "{dir}"},
		"mount over a directory":   {"mount", "bind", "/usr", "{dir}"},
		"unmount":                  {"unmount", "/proc"},
	} {
		all = append(all, attack{name: name, words: words, root: true, apart: unix.CLONE_NEWNS})
	}
	if _, err := os.Stat("/sys/fs/cgroup/memory/release_agent"); err == nil {
		all = append(all, attack{name: "have the kernel run a program", words: []string{"releaseagent", "{dir}"}, root: true, apart: unix.CLONE_NEWNS})
	}
	return all
}

// onCalls make system calls that lead into the kernel's own tables.
func onCalls() []attack {
	var all []attack
	for name, root := range map[string]bool{
		"keyctl": false, "add_key": false, "bpf": true, "perf_event_open": true, "io_uring_setup": false, "userfaultfd": false,
		"fanotify_init": true, "name_to_handle_at": false, "open_tree": true, "fsopen": true, "syslog": true, "kcmp": false,
		"mincore": false, "timestamping": false, "attach_filter": false,
	} {
		all = append(all, attack{name: "call " + name, words: []string{"call", name}, root: root})
	}
	for name, words := range map[string][3]int{
		"raw":               {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
		"packet":            {unix.AF_PACKET, unix.SOCK_RAW, 0},
		"netlink audit":     {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT},
		"netlink uevent":    {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT},
		"netlink netfilter": {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER},
		"multipath TCP":     {unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP},
		"vsock":             {unix.AF_VSOCK, unix.SOCK_STREAM, 0},
	} {
		all = append(all, attack{name: "open a socket of kind " + name, words: []string{"socket", fmt.Sprint(words[0]), fmt.Sprint(words[1]), fmt.Sprint(words[2])}, root: true})
	}
	return append(all,
		attack{name: "call by the 32-bit entry", words: []string{"int80"}, kills: true},
		attack{name: "call sethostname", words: []string{"call", "sethostname"}, root: true, apart: unix.CLONE_NEWUTS},
		attack{name: "lock 64 MiB of memory", words: []string{"lock", "64"}, root: true},
		attack{name: "type into a terminal", words: []string{"inject"}, loot: "typed"},
	)
}

// onNetwork try to reach what listens on the machine, and what its processes share.
func onNetwork() []attack {
	const loot = "-of-the-host"
	return []attack{
		{name: "reach a service on the loopback", words: []string{"connect", "tcp", "{tcp}"}, loot: loot},
		{name: "reach a service on every address", words: []string{"connect", "tcp", "{any}"}, loot: loot},
		{name: "reach a datagram service", words: []string{"connect", "udp", "{udp}"}, loot: loot},
		{name: "reach an abstract socket", words: []string{"connect", "unix", "{abstract}"}, loot: loot},
		{name: "reach a socket by its path", words: []string{"connect", "unix", "{socket}"}, loot: loot},
		{name: "see the helper's sockets", words: []string{"read", "/proc/net/unix"}, loot: "berth-uid-"},
		{name: "find a way out", words: []string{"interfaces"}},
		{name: "read shared memory", words: []string{"segment", "{segment}"}, loot: loot},
		{name: "open a message queue", words: []string{"queue", "{queue}"}},
	}
}

// onPrivileges try to have more of them than they should.
func (s *spot) onPrivileges() []attack {
	s.Helper()
	program, err := os.ReadFile(s.program)
	if err != nil {
		s.Fatal(err)
	}
	for _, name := range []string{"setuid", "blessed"} {
		if err := writeProgram(filepath.Join(s.public, name), program); err != nil {
			s.Fatal(err)
		}
		s.sh("box", "root", "cp /workspace/attacker /workspace/"+name+" && chown 0:0 /workspace/"+name)
	}
	if err := os.Chmod(filepath.Join(s.public, "setuid"), 0o755|os.ModeSetuid); err != nil {
		s.Fatal(err)
	}
	s.sh("box", "root", "chmod 4755 /workspace/setuid && /workspace/attacker bless /workspace/blessed")
	if code, out := s.plain(nil, "", "bless", filepath.Join(s.public, "blessed")); code != 0 {
		s.Fatal(out)
	}
	for _, name := range []string{"setuid", "blessed"} { // under the same path on both sides
		s.sh("box", "root", "mkdir -p "+s.public+" && cp -p --preserve=all /workspace/"+name+" "+s.public+"/")
	}
	return []attack{
		{name: "have capabilities that reach far", words: []string{"capabilities"}, root: true},
		{name: "have no bounds", words: []string{"unbound"}},
		{name: "become root by a program's owner", words: []string{"become", filepath.Join(s.public, "setuid")}, agent: true},
		{name: "gain capabilities by a program's", words: []string{"become", filepath.Join(s.public, "blessed")}, agent: true},
	}
}
