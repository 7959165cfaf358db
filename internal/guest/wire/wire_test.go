package wire

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var configs = map[string]Config{
	"empty": {},
	"full": {
		Hostname: "box", Workdir: "/workspace", Home: "/home/agent", Single: true,
		Trees:  []Tree{{Role: RoleBase}, {Role: RoleMount, Target: "/opt/tools"}, {Role: RoleUpper, Path: "/up"}},
		Limits: Limits{FileSize: math.MaxUint64, NoFile: 1024, Processes: 7, TmpBytes: 1 << 40, ShmBytes: 1},
		Etc:    []EtcFile{{Path: "/etc/hosts", Mode: 0o644, Data: []byte("127.0.0.1 localhost\n"), Always: true}, {Path: "/etc/empty", Mode: 0o600}},
	},
}

var requests = map[string]Request{
	"ping": {Op: OpPing},
	"run": {Op: OpRun, Cmd: Cmd{
		Argv: []string{"sh", "-c", "exit"}, Env: []string{"A=", "B=\xff\n"}, Dir: "sub", Root: true, Streams: Stdin | Stderr,
	}},
	"start":  {Op: OpStart, ID: "p-1", Cmd: Cmd{Argv: []string{"cat"}, Input: true, Terminal: &Size{Rows: 65535, Cols: 1}, Keep: -1, Timeout: 1}},
	"signal": {Op: OpSignal, ID: "p", Signal: 64},
	"resize": {Op: OpResize, ID: "p", Size: Size{Rows: 24, Cols: 80}},
	"dial":   {Op: OpDial, Port: 65535, IPv6: true},
	"long":   {Op: OpRun, Cmd: Cmd{Argv: []string{strings.Repeat("x", 300<<10)}}},
}

var replies = map[string]Reply{
	"ok":     {},
	"failed": {Code: Refused, Text: "nobody there"},
	"exit":   {Exit: &Exit{Code: 255, Signal: 64, Reason: "why", Lost: true, At: math.MaxInt64, CPU: 1, MaxRSS: math.MinInt64}},
	"list": {Processes: []Process{
		{ID: "a", Argv: []string{"x", ""}, Terminal: true, StartedAt: -1, First: 5, End: 1 << 60, Exit: &Exit{Code: 1}}, {ID: "b"},
	}},
}

func TestMessagesArriveAsTheyWereSent(t *testing.T) {
	for name, c := range configs {
		got, err := DecodeConfig(c.Encode())
		same(t, name, c, got, err)
	}
	for name, r := range requests {
		got, err := DecodeRequest(r.Append(nil))
		same(t, name, r, got, err)
	}
	for name, r := range replies {
		got, err := DecodeReply(r.Append(nil))
		same(t, name, r, got, err)
	}
	exit := *replies["exit"].Exit
	got, err := DecodeExit(exit.Append(nil))
	same(t, "an exit alone", exit, got, err)
}

func same[T any](t *testing.T, name string, want, got T, err error) {
	t.Helper()
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%s: error %v, difference %s", name, err, diff)
	}
}

// A field that was added later is zero for who does not send it, and nothing to who does not know it.
func TestMessagesMayGrow(t *testing.T) {
	r := requests["start"]
	whole := r.Append(nil)
	short := whole[:len(whole)-1] // without Timeout
	want := r
	want.Cmd.Timeout = 0
	got, err := DecodeRequest(short)
	same(t, "from an older sender", want, got, err)
	got, err = DecodeRequest(append(whole, 1, 2, 3))
	same(t, "from a newer sender", r, got, err)
}

func TestNonsenseIsMalformed(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}
	for name, b := range map[string][]byte{
		"nothing":            {},
		"no such request":    {byte(opEnd)},
		"a string cut short": {byte(OpPing), 5, 'a'},
		"a number too long":  append(bytes.Repeat([]byte{0xff}, 10), 1),
		"a number cut short": {0x80},
		"a huge string":      append([]byte{byte(OpPing)}, huge...),
		"a huge list":        append([]byte{byte(OpRun), 0, 0, 0, 0, 0, 0}, huge...),
		"not true nor false": {byte(OpPing), 0, 0, 0, 2},
		"no such port":       {byte(OpPing), 0, 0, 0x80, 0x80, 0x80, 1},
	} {
		if r, err := DecodeRequest(b); err != ErrMalformed {
			t.Errorf("%s: %+v, error %v", name, r, err)
		}
	}
	if c, err := DecodeConfig([]byte{0, 0, 0, 0, 1, 1, byte(roleEnd)}); err != ErrMalformed {
		t.Errorf("a tree for nothing: %+v, error %v", c, err)
	}
	if c, err := DecodeConfig([]byte{0, 0, 0, 0, 1, 1, 0}); err != ErrMalformed {
		t.Errorf("a tree without a role: %+v, error %v", c, err)
	}
	if r, err := DecodeReply([]byte{0, 0, 1, 2, 0x80, 0x80}); err != ErrMalformed {
		t.Errorf("a damaged exit: %+v, error %v", r, err)
	}
	if r, err := DecodeReply([]byte{byte(codeEnd)}); err != ErrMalformed {
		t.Errorf("no such answer: %+v, error %v", r, err)
	}
}

func TestIDs(t *testing.T) {
	for id, valid := range map[string]bool{
		"a": true, "0-9": true, "-": true, strings.Repeat("x", 64): true,
		"": false, ".": false, "..": false, "a/b": false, "A": false, "ä": false, "a\n": false, strings.Repeat("x", 65): false,
	} {
		if ValidID(id) != valid {
			t.Errorf("ValidID(%q) = %v", id, !valid)
		}
	}
}

// Whatever comes in, decoding ends, allocates in proportion, and what it accepts it can write again.
func FuzzDecode(f *testing.F) {
	for _, c := range configs {
		f.Add(c.Encode())
	}
	for _, r := range requests {
		if b := r.Append(nil); len(b) < 1<<10 { // long ones only make it slow
			f.Add(b)
		}
	}
	for _, r := range replies {
		f.Add(r.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := DecodeConfig(b); err == nil {
			again, err := DecodeConfig(c.Encode())
			stable(t, c, again, err)
		}
		if r, err := DecodeRequest(b); err == nil {
			again, err := DecodeRequest(r.Append(nil))
			stable(t, r, again, err)
		}
		if r, err := DecodeReply(b); err == nil {
			again, err := DecodeReply(r.Append(nil))
			stable(t, r, again, err)
		}
		if x, err := DecodeExit(b); err == nil {
			again, err := DecodeExit(x.Append(nil))
			stable(t, x, again, err)
		}
	})
}

func stable(t *testing.T, first, again any, err error) {
	t.Helper()
	if err != nil || !reflect.DeepEqual(first, again) {
		t.Fatalf("%+v is written as %+v, error %v", first, again, err)
	}
}
