package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// harmless is the set of capabilities that root in a sandbox may have. None has an effect outside the sandbox.
const harmless = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
	1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETFCAP | 1<<unix.CAP_KILL |
	1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_SYS_CHROOT

// capabilities succeeds if the process has a capability that is not harmless.
func capabilities([]string) error {
	for name, value := range status() {
		if !strings.HasPrefix(name, "Cap") || name == "CapBnd" {
			continue
		}
		set, err := strconv.ParseUint(value, 16, 64)
		if err != nil {
			return errUsage
		}
		if set&^harmless != 0 {
			fmt.Printf("%s is %x\n", name, set)
			return nil
		}
	}
	return errors.New("there are none that matter")
}

// unbound succeeds if the process may gain privileges or has no seccomp filter.
func unbound([]string) error {
	s := status()
	if s["NoNewPrivs"] == "0" || s["Seccomp"] == "0" {
		return nil
	}
	return fmt.Errorf("no new privileges: %s, filter: %s", s["NoNewPrivs"], s["Seccomp"])
}

// status returns the fields of /proc/self/status.
func status() map[string]string {
	data, _ := os.ReadFile("/proc/self/status")
	s := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		s[name] = strings.TrimSpace(value)
	}
	return s
}

// become runs a copy of this program whose file has a setuid bit, a setgid bit or capabilities. The copy, which gets no
// argument, reports whether it gained another identity or capabilities.
func become(args []string) error {
	if len(args) == 1 {
		cmd := exec.Command(args[0], "become")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		return cmd.Run()
	}
	fmt.Println("uid", os.Getuid(), "effective", os.Geteuid(), "gid", os.Getgid(), "effective", os.Getegid(), "capabilities", status()["CapEff"])
	if os.Getuid() == os.Geteuid() && os.Getgid() == os.Getegid() && strings.Trim(status()["CapEff"], "0") == "" {
		return errors.New("nothing gained")
	}
	return nil
}

// bless gives a file the capabilities CAP_DAC_OVERRIDE and CAP_SYS_ADMIN.
func bless(args []string) error {
	w, err := words(args, 1)
	if err != nil {
		return err
	}
	const revision2, effective = 0x02000000, 1
	var value [20]byte
	binary.LittleEndian.PutUint32(value[0:], revision2|effective)
	binary.LittleEndian.PutUint32(value[4:], 1<<unix.CAP_DAC_OVERRIDE|1<<unix.CAP_SYS_ADMIN)
	return unix.Setxattr(w[0], "security.capability", value[:], 0)
}
