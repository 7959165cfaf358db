package app_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
)

// obeyed are sequences that a terminal does things on.
var obeyed = map[string]string{
	"clipboard":      "\x1b]52;c;ZXZpbA==\x07",
	"clipboard read": "\x1b]52;c;?\x1b\\",
	"link":           "\x1b]8;;javascript:alert(1)\x1b\\click\x1b]8;;\x1b\\",
	"title":          "\x1b]0;owned\x07",
	"device query":   "\x1b[c\x1b[6n\x1b[>c\x05",
	"screen":         "\x1b[2J\x1b[H\x1b[?1049h\x1bc",
	"string":         "\x1bP$q\"p\x1b\\\x1b_x\x1b\\\x1b^x\x1b\\",
	"eight bits":     "\u009b31;1m\u009d52;c;eA==\u009c",
	"keys":           "\x1b[?1000h\x1b[>4;1m\x1b[200~id\n\x1b[201~",
	"reorder":        "\u202egpj.exe",
	"backspace":      "safe\b\b\b\bevil\rover",
}

// dangerous are the bytes that no sequence does without.
const dangerous = "\x1b\x07\x05\b\u009b\u009d\u202e"

// At a terminal, what comes out of a sandbox is text: nothing in it makes the terminal do anything, in
// output, names, errors and logs. Only who hands the terminal over, with -t, gets it as it is.
func TestTerminalDoesNotObeyASandbox(t *testing.T) {
	t.Parallel()
	a := newArena(t, "")
	a.box("box", "")
	for name, sequence := range obeyed {
		octal := fmt.Sprintf("printf '%s'", octals(sequence+"|"))
		if screen := a.berth("exec", "-t", "box", "--", "sh", "-c", octal); !strings.Contains(screen, firstLine(sequence)) {
			t.Errorf("%s: a terminal that is handed over does not get it, so this proves nothing: %q", name, screen)
		}
		for _, line := range []string{octal, octal + " >&2"} {
			if screen := a.berth("exec", "box", "--", "sh", "-c", line); harmful(screen) || !strings.Contains(screen, "|") {
				t.Errorf("%s: %q", name, screen)
			}
		}
	}
	if screen := a.berth("exec", "box", "--", "printf", octals(obeyed["clipboard"])); !strings.Contains(screen, `\x1b]52;c;ZXZpbA==\a`) {
		t.Errorf("what is not obeyed is not shown: %q", screen)
	}
	a.hostileFiles()
	for _, words := range [][]string{{"files", "box"}, {"ls", "box:"}, {"cat", "box:\x1b]0;none\x07"}, {"exec", "box", "--", "\x1b]0;none\x07"}, {"get", "\x1b]0;none\x07"}} {
		if screen := a.berth(words...); harmful(screen) || screen == "" {
			t.Errorf("%q: %q", words, screen)
		}
	}
	a.logged()
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func octals(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, `\%03o`, c)
	}
	return b.String()
}

// colours are what a terminal may be told, and what our own command line says to it.
var colours = strings.NewReplacer("\x1b[0m", "", "\x1b[1m", "", "\x1b[2m", "", "\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "", "\x1b[36m", "", "\x1b[K", "", "\x1b[?25l", "", "\x1b[?25h", "", "\r\n", "\n")

func harmful(screen string) bool { return strings.ContainsAny(colours.Replace(screen), dangerous) }

// hostileFiles makes files whose names a terminal would obey.
func (a *arena) hostileFiles() {
	a.Helper()
	for _, sequence := range obeyed {
		name := strings.ReplaceAll(sequence, "/", "_")
		a.sh("box", "agent", fmt.Sprintf(`touch -- "/workspace/$(printf '%s')"; ln -s -- "$(printf '%[1]s')" "/workspace/link-$(printf '%[1]s')"`, octals(name)))
	}
}

// logged looks at what a command left behind, and at what was running.
func (a *arena) logged() {
	a.Helper()
	all := ""
	for _, sequence := range obeyed {
		all += sequence
	}
	stream := a.spawn("box", api.Exec{ExecID: "loud", Command: []string{"sh", "-c", "printf '" + octals(all) + "'; printf '|'; sleep 1000", "\x1b]0;arg\x07"}})
	a.await(stream, "|")
	for _, words := range [][]string{{"logs", "box", "loud"}, {"ps", "box"}, {"history", "box"}} {
		if screen := a.berth(words...); harmful(screen) || screen == "" {
			a.Errorf("%q: %q", words, screen)
		}
	}
}

// berth runs the command line at a terminal and returns what appeared there.
func (a *arena) berth(words ...string) string {
	a.Helper()
	screen, tty, err := openTerminal()
	if err != nil {
		a.Fatal(err)
	}
	defer screen.Close()
	cmd := exec.CommandContext(a.Context(), value(a.env, exeEnv), words...)
	cmd.Env = []string{"BERTH_SERVER=" + a.server.url, "BERTH_API_KEY=" + testKey, "TERM=xterm", "HOME=" + a.public, "PATH=" + os.Getenv("PATH")}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		a.Fatal(err)
	}
	tty.Close()
	kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	shown, _ := io.ReadAll(screen) // until nobody has the terminal
	_ = cmd.Wait()
	return string(shown)
}

// openTerminal makes a terminal that shows things as they come.
func openTerminal() (screen, tty *os.File, err error) {
	if screen, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	fd := int(screen.Fd())
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	if err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 200}); err != nil {
		return nil, nil, err
	}
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY)
	if errno != 0 {
		return nil, nil, errno
	}
	return screen, os.NewFile(peer, "tty"), nil
}
