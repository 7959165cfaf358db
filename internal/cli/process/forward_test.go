package process

import (
	"net"
	"testing"
)

func TestPortsToForward(t *testing.T) {
	for text, want := range map[string]forwarding{
		"5432":       {ref: "box", port: 5432, local: 5432, localSame: true},
		"5432:15432": {ref: "box", port: 5432, local: 15432},
		"5432:0":     {ref: "box", port: 5432},
	} {
		if got, err := parseForward("box", text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ":", "0", "x", "70000", "-1", "80:", "80:x", "80:70000", "80:1:2"} {
		if got, err := parseForward("box", text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// A port that is taken gives way to a free one only if it was not asked for.
func TestLocalPortThatIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := uint16(taken.Addr().(*net.TCPAddr).Port)
	if _, err := (forwarding{port: port, local: port}).listen(); err == nil {
		t.Error("a taken port was taken again")
	}
	ln, err := forwarding{port: port, local: port, localSame: true}.listen()
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if host, _, _ := net.SplitHostPort(ln.Addr().String()); host != "127.0.0.1" {
		t.Errorf("listens on %s", ln.Addr())
	}
}
