package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

// tape is a driver with one instance, of which only the output is there.
type tape struct {
	driver.Driver
	chunks []guest.Chunk // without offsets
	first  int64         // the oldest offset that is kept
	exit   *guest.Exit   // nil: the output fails
	fail   error
}

// handle is a handle on the instance.
func (b *tape) handle() *engine.Handle {
	e := engine.New(engine.Options{Drivers: map[string]driver.Driver{"tape": b}})
	return e.HandleAt(sandbox.Sandbox{State: sandbox.Running, Spec: sandbox.Spec{Driver: "tape"}}, "tape-1")
}

func (b *tape) Guest(context.Context, driver.ID) (guest.Conn, error) { return nil, b.fail }

func (b *tape) Output(_ context.Context, _ driver.ID, _ string, after int64) iter.Seq2[guest.Chunk, error] {
	return func(yield func(guest.Chunk, error) bool) {
		if after < 0 {
			after = b.first
		}
		if after < b.first {
			yield(guest.Chunk{}, guest.ErrTrimmed)
			return
		}
		at := int64(0)
		for _, c := range b.chunks {
			at += int64(len(c.Data))
			if at <= after {
				continue
			}
			c.Data, c.Next = c.Data[max(0, int64(len(c.Data))-(at-after)):], at
			if !yield(c, nil) {
				return
			}
		}
		if b.exit == nil {
			yield(guest.Chunk{}, b.fail)
			return
		}
		yield(guest.Chunk{Next: at, Exit: b.exit}, nil)
	}
}

func stdout(text string) guest.Chunk { return guest.Chunk{Stream: guest.Stdout, Data: []byte(text)} }
func stderr(text string) guest.Chunk { return guest.Chunk{Stream: guest.Stderr, Data: []byte(text)} }

// plain is a Reader of lines that are JSON strings: a text each. "end" ends the turn, as "no" does.
type plain struct{ Said, Ended string }

func (p *plain) Line(line []byte) ([]api.TurnEvent, bool) {
	var text string
	if json.Unmarshal(line, &text) != nil {
		return nil, false
	}
	switch text {
	case "end":
		p.Ended = api.TurnCompleted
		return nil, true
	case "no":
		p.Ended = api.TurnFailed
		return nil, true
	case "aborted":
		p.Ended = api.TurnCancelled
		return nil, true
	}
	p.Said += text
	return []api.TurnEvent{{Type: api.EventText, Text: text}}, true
}
func (p *plain) State() any       { return p }
func (p *plain) End() (End, bool) { return End{Status: p.Ended, Model: p.Said}, p.Ended != "" }
func newPlain() *Worker {
	return &Worker{Kind: "plain", Install: func(Turn) string { return "berth template install plain" }, Read: func(_ Turn, state json.RawMessage) (Reader, error) {
		p := &plain{}
		if len(state) == 0 {
			return p, nil
		}
		return p, json.Unmarshal(state, p)
	}}
}

func play(t testing.TB, b *tape, after Cursor) (steps []Step, events []api.TurnEvent, end *End) {
	t.Helper()
	for s, err := range newPlain().Events(t.Context(), b.handle(), Turn{ID: "t"}, after) {
		if err != nil {
			t.Fatal(err)
		}
		steps, events, end = append(steps, s), append(events, s.Events...), s.End
	}
	if end == nil {
		t.Fatalf("no end: %+v", events)
	}
	return steps, events, end
}

func TestEnds(t *testing.T) {
	testkit.Proves(t, "O5")
	const note = "\n" + `{"berth":"%s"}` + "\n"
	for name, c := range map[string]struct {
		chunks []guest.Chunk
		exit   guest.Exit
		want   string // status, code, words
		again  bool
	}{
		"completed":                     {[]guest.Chunk{stdout(`"a"` + "\n" + `"end"`)}, guest.Exit{}, "completed  ", false},
		"completed, and then cancelled": {[]guest.Chunk{stdout(`"end"` + fmt.Sprintf(note, "cancelled"))}, guest.Exit{Code: 130}, "completed  ", false},
		"failed":                        {[]guest.Chunk{stdout(`"no"`)}, guest.Exit{Code: 1}, "failed  ", false},
		"cancelled":                     {[]guest.Chunk{stdout(`"a"` + fmt.Sprintf(note, "cancelled"))}, guest.Exit{Code: 1}, "cancelled  the turn was cancelled", false},
		"cancelled, says the agent":     {[]guest.Chunk{stdout(`"aborted"`)}, guest.Exit{Code: 1}, "cancelled  the turn was cancelled", false},
		"cancelled at once":             {nil, guest.Exit{Code: 130, Signal: 2}, "cancelled  the turn was cancelled", false},
		"no session":                    {[]guest.Chunk{stdout(fmt.Sprintf(note, "no_session"))}, guest.Exit{}, "failed agent_failed the agent's session is gone", false},
		"not installed":                 {[]guest.Chunk{stdout(fmt.Sprintf(note, "not_installed"))}, guest.Exit{Code: 127}, "failed agent_not_installed the agent is not installed; run: berth template install plain", false},
		"out of time":                   {[]guest.Chunk{stdout(`"a"` + "\n")}, guest.Exit{Code: 124, Signal: 9, Reason: "killed after 1s"}, "failed turn_timeout the turn took too long: killed after 1s", false},
		"an exit that looks like it":    {nil, guest.Exit{Code: 124}, "failed agent_failed the agent ended without an answer (exit code 124)", false},
		"killed before it said a word":  {[]guest.Chunk{stdout(`"`)}, guest.Exit{Code: 137}, "interrupted turn_interrupted the agent's process was killed, for want of memory perhaps", true},
		"killed after it did":           {[]guest.Chunk{stdout(`"a"` + "\n")}, guest.Exit{Code: 143, Signal: 15}, "interrupted turn_interrupted the agent's process was ended by a signal (exit code 143)", false},
		"lost before it said a word":    {nil, guest.Exit{Lost: true}, "interrupted turn_interrupted the sandbox ended under the agent", true},
		"lost after it did":             {[]guest.Chunk{stdout(`"a"` + "\n")}, guest.Exit{Lost: true}, "interrupted turn_interrupted the sandbox ended under the agent", false},
		"with its own words":            {[]guest.Chunk{stderr("oh "), stdout("what\n"), stderr("no\n")}, guest.Exit{Code: 3}, "failed agent_failed the agent ended without an answer (exit code 3): oh no", false},
		"with garbage":                  {[]guest.Chunk{stdout("what\n{\"berth\":3}\n")}, guest.Exit{Code: 3}, `failed agent_failed the agent ended without an answer (exit code 3): {"berth":3}`, false},
		"that cannot be run":            {nil, guest.Exit{Code: 127, Reason: "/bin/sh: not found"}, "failed agent_failed the agent ended without an answer (exit code 127): /bin/sh: not found", false},
	} {
		_, _, end := play(t, &tape{chunks: c.chunks, exit: &c.exit, fail: errors.New("only a tape")}, Cursor{})
		if got := fmt.Sprintf("%s %s %s", end.Status, end.Code, end.Message); got != c.want || end.Again != c.again || end.NoSession != (name == "no session") {
			t.Errorf("%s: %q %+v, not %q", name, got, end, c.want)
		}
	}
}

// Lines are put together whatever their pieces are, and output beside them does not matter; from
// every step the rest is the rest.
func TestPieces(t *testing.T) {
	testkit.Proves(t, "C4")
	rapid.Check(t, func(t *rapid.T) {
		var text, errs []byte
		for range rapid.IntRange(0, 12).Draw(t, "lines") {
			text = append(text, rapid.SampledFrom([]string{`"a"` + "\n", `"bcd"` + "\n", "\n", "garbage\n", `{"berth":"x"}` + "\n", `"é\u0000"` + "\r\n"}).Draw(t, "line")...)
			errs = append(errs, rapid.SampledFrom([]string{"", "warning\n"}).Draw(t, "err")...)
		}
		text = append(text, rapid.SampledFrom([]string{"", `"end"`, `"en`}).Draw(t, "last")...)
		b := &tape{exit: &guest.Exit{Code: 1}, fail: errors.New("only a tape")}
		for len(text)+len(errs) > 0 {
			from, stream := &text, guest.Stdout
			if len(text) == 0 || len(errs) > 0 && rapid.Bool().Draw(t, "err") {
				from, stream = &errs, guest.Stderr
			}
			n := rapid.IntRange(1, min(8, len(*from))).Draw(t, "n")
			b.chunks = append(b.chunks, guest.Chunk{Stream: stream, Data: bytes.Clone((*from)[:n])})
			*from = (*from)[n:]
		}
		collect := func(after Cursor) (steps []Step, events []api.TurnEvent, end End) {
			for s, err := range newPlain().Events(context.Background(), b.handle(), Turn{ID: "t"}, after) {
				if err != nil {
					t.Fatal(err)
				}
				steps, events = append(steps, s), append(events, s.Events...)
				if s.End != nil {
					end = *s.End
				}
			}
			return steps, events, end
		}
		steps, whole, end := collect(Cursor{})
		seen := 0
		for i, s := range steps {
			seen += len(s.Events)
			_, rest, again := collect(s.Cursor)
			if diff := cmp.Diff(whole[seen:], rest, cmpopts.EquateEmpty()) + cmp.Diff(end, again); diff != "" {
				t.Fatalf("behind step %d: %s", i, diff)
			}
		}
	})
}

func TestLongLinesAreLeftOut(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	b := &tape{exit: &guest.Exit{}, fail: errors.New("only a tape")}
	for _, text := range []string{`"before"` + "\n" + `"`, long, long, long, long, `"` + "\n" + `"after"` + "\n", `"end"` + "\n"} {
		b.chunks = append(b.chunks, stdout(text))
	}
	steps, events, end := play(t, b, Cursor{})
	if len(events) != 3 || events[0].Text != "before" || events[1].Status != StatusOutputLost || events[2].Text != "after" || end.Status != api.TurnCompleted {
		t.Errorf("%+v %+v", events, end)
	}
	for _, s := range steps {
		if len(s.Cursor.State) > 1<<10 {
			t.Errorf("a state of %d bytes", len(s.Cursor.State))
		}
		play(t, b, s.Cursor)
	}
	// In one piece, too.
	_, again, _ := play(t, &tape{chunks: []guest.Chunk{stdout(`"before"` + "\n" + strings.Repeat(long, 3) + "\n" + `"after"` + "\n")}, exit: &guest.Exit{}, fail: errors.New("x")}, Cursor{})
	if diff := cmp.Diff(events, again); diff != "" {
		t.Error(diff)
	}
}

// A flood that says nothing moves the cursor all the same.
func TestFloodMovesTheCursor(t *testing.T) {
	b := &tape{exit: &guest.Exit{}, fail: errors.New("only a tape")}
	for range 100 {
		b.chunks = append(b.chunks, stdout(strings.Repeat(strings.Repeat("garbage ", 500)+"\n", 16)))
	}
	steps, events, _ := play(t, b, Cursor{})
	if len(events) > 0 || len(steps) < 5 || len(steps) > 20 {
		t.Errorf("%d steps, %d events", len(steps), len(events))
	}
}

func TestTrimmedOutput(t *testing.T) {
	b := &tape{chunks: []guest.Chunk{stdout(`"old"` + "\n"), stdout(`"cut"` + "\n" + `"new"` + "\n" + `"end"`)}, first: 8, exit: &guest.Exit{}, fail: errors.New("only a tape")}
	_, events, end := play(t, b, Cursor{})
	if len(events) != 2 || events[0].Status != StatusOutputLost || events[1].Text != "new" || end.Status != api.TurnCompleted {
		t.Errorf("%+v %+v", events, end)
	}
}

func TestTroubles(t *testing.T) {
	for _, c := range []struct {
		fail error
		code api.Code
	}{
		{guest.ErrGone, api.CodeNotRunning},
		{guest.ErrDiskFull, api.CodeDiskFull},
		{errors.New("x"), api.CodeDriverUnreachable},
		{fault.Errorf("", api.CodeBusy, "x"), api.CodeBusy},
	} {
		for _, err := range newPlain().Events(t.Context(), (&tape{fail: c.fail}).handle(), Turn{}, Cursor{}) {
			if fault.CodeOf(err) != c.code {
				t.Errorf("%v is %v", c.fail, err)
			}
		}
	}
	for _, err := range newPlain().Events(t.Context(), (&tape{fail: context.Canceled}).handle(), Turn{}, Cursor{}) {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	for _, state := range []string{"x", `{"agent":3}`} {
		for _, err := range newPlain().Events(t.Context(), (&tape{}).handle(), Turn{}, Cursor{State: []byte(state)}) {
			if fault.CodeOf(err) != api.CodeInvalidCursor {
				t.Errorf("a cursor with %q: %v", state, err)
			}
		}
	}
	gone := errors.New("gone")
	if err := newPlain().Start(t.Context(), (&tape{fail: gone}).handle(), Turn{}); !errors.Is(err, gone) {
		t.Error(err)
	}
	if err := newPlain().Cancel(t.Context(), (&tape{fail: gone}).handle(), Turn{}); !errors.Is(err, gone) {
		t.Error(err)
	}
	if newPlain().Name() != "plain" {
		t.Error(newPlain().Name())
	}
}
