package guest_test

import (
	"bytes"
	"os/exec"
	"testing"

	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/guest/guesttest"
)

// BenchmarkRun is to be compared with BenchmarkForkExec: it should cost at most 1.3 times as much.
func BenchmarkRun(b *testing.B) {
	c := guesttest.Plain(b)
	cmd := guest.Cmd{Argv: []string{"/bin/true"}, Env: []string{"PATH=/bin", "HOME=/", "USER=x"}}
	for b.Loop() {
		var out bytes.Buffer
		if _, err := c.Run(b.Context(), cmd, guest.Stdio{Stdout: &out}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkForkExec is the floor: the same command as a child of this process.
func BenchmarkForkExec(b *testing.B) {
	for b.Loop() {
		var out bytes.Buffer
		cmd := exec.Command("/bin/true")
		cmd.Stdout = &out
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPing(b *testing.B) {
	c := guesttest.Plain(b)
	for b.Loop() {
		if err := c.Ping(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDial(b *testing.B) {
	c := guesttest.Plain(b)
	l, err := c.Listen(b.Context(), freePort(b))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	port := portOf(l)
	for b.Loop() {
		conn, err := c.Dial(b.Context(), port)
		if err != nil {
			b.Fatal(err)
		}
		conn.Close()
	}
}
