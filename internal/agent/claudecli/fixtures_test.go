package claudecli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
)

// recording is a run of the real CLI against a model's double, with what that really answered.
type recording struct {
	File  string   `json:"file"`
	Args  []string `json:"args"`
	Exit  int      `json:"exit_code"`
	Err   string   `json:"stderr"`
	Calls struct {
		Conversation, Side fakeUsage
	} `json:"model_calls"`
}

type fakeUsage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Write  int64 `json:"cache_creation_input_tokens"`
	Read   int64 `json:"cache_read_input_tokens"`
}

func (r recording) truth() api.Usage {
	c, s := r.Calls.Conversation, r.Calls.Side
	return api.Usage{InputTokens: c.Input + s.Input, OutputTokens: c.Output + s.Output,
		CacheReadTokens: c.Read + s.Read, CacheWriteTokens: c.Write + s.Write}
}

func (r recording) exit() guest.Exit {
	if r.Exit < 0 {
		return guest.Exit{Code: 128 - r.Exit}
	}
	return guest.Exit{Code: r.Exit}
}

func recordings(t testing.TB) (all []recording) {
	t.Helper()
	raw, err := os.ReadFile("testdata/manifest.json")
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (r recording) stdout(t testing.TB) []byte {
	t.Helper()
	out, err := os.ReadFile(filepath.Join("testdata", r.File))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// tape is a driver with one instance, of which only the output is there: what a process wrote, in chunks.
type tape struct {
	driver.Driver
	out, err []byte
	chunk    int
	exit     guest.Exit
}

// handle is a handle on the instance.
func (b *tape) handle() *engine.Handle {
	e := engine.New(engine.Options{Drivers: map[string]driver.Driver{"tape": b}})
	return e.HandleAt(sandbox.Sandbox{State: sandbox.Running, Spec: sandbox.Spec{Driver: "tape"}}, "tape-1")
}

func (b *tape) Guest(context.Context, driver.ID) (guest.Conn, error) {
	return nil, errors.New("only a tape")
}

func (b *tape) Output(_ context.Context, _ driver.ID, _ string, after int64) iter.Seq2[guest.Chunk, error] {
	return func(yield func(guest.Chunk, error) bool) {
		all := append(append([]byte{}, b.err...), b.out...)
		for at := int(after); at < len(all); {
			n, stream := min(b.chunk, len(all)-at), guest.Stdout
			if at < len(b.err) {
				n, stream = min(n, len(b.err)-at), guest.Stderr
			}
			if !yield(guest.Chunk{Stream: stream, Data: bytes.Clone(all[at : at+n]), Next: int64(at + n)}, nil) {
				return
			}
			at += n
		}
		yield(guest.Chunk{Next: int64(len(all)), Exit: &b.exit}, nil)
	}
}

// play reads a tape from a cursor to its end.
func play(t testing.TB, b *tape, after agent.Cursor) (steps []agent.Step, events []api.TurnEvent, end agent.End) {
	t.Helper()
	for s, err := range New().Events(t.Context(), b.handle(), agent.Turn{ID: "t", Attempt: 1}, after) {
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, s)
		events = append(events, s.Events...)
	}
	if len(steps) == 0 || steps[len(steps)-1].End == nil {
		t.Fatal("the last step has no end")
	}
	return steps, events, *steps[len(steps)-1].End
}

// endings are how the recorded turns ended; the others completed.
var endings = map[string]string{
	"error-400.jsonl": "failed: API Error: 400 scripted failure 400", "error-401.jsonl": "failed: ", "error-429.jsonl": "failed: ",
	"error-500.jsonl": "failed: ", "error-529.jsonl": "failed: ", "error-midturn.jsonl": "failed: API Error: 400",
	"session-id-reused.jsonl": "failed: the agent ended without an answer (exit code 1): Error: Session ID",
	"resume-unknown.jsonl":    "failed: the agent's session is gone", "resume-other-cwd.jsonl": "failed: the agent's session is gone",
	"max-turns.jsonl": "failed: ", "max-budget.jsonl": "failed: Reached maximum budget",
	"sigint-no-result.jsonl": "failed: the agent ended without an answer (exit code 0)",
	"sigint-in-tool.jsonl":   "cancelled: ", "sigterm-in-tool.jsonl": "interrupted: ", "sigkill-in-stream.jsonl": "interrupted: ",
}

// noResult are the recordings without a result: the figures are the sums of the lines.
var noResult = map[string]api.Usage{
	"sigint-no-result.jsonl":  {InputTokens: 100, OutputTokens: 1, CacheWriteTokens: 1000, Estimated: true},
	"sigterm-in-tool.jsonl":   {InputTokens: 100, OutputTokens: 1, CacheWriteTokens: 1000, Estimated: true},
	"sigkill-in-stream.jsonl": {InputTokens: 100, OutputTokens: 1, CacheWriteTokens: 1000, Estimated: true},
	"session-id-reused.jsonl": {Estimated: true},
}

func TestRecordings(t *testing.T) {
	testkit.Proves(t, "C7")
	all := recordings(t)
	if len(all) != 33 {
		t.Fatalf("there are %d recordings", len(all))
	}
	for _, r := range all {
		t.Run(strings.TrimSuffix(r.File, ".jsonl"), func(t *testing.T) {
			_, events, end := play(t, &tape{out: r.stdout(t), err: []byte(r.Err), chunk: 4096, exit: r.exit()}, agent.Cursor{})
			want, estimated := noResult[r.File]
			if !estimated {
				want = r.truth()
			}
			if end.Usage != want {
				t.Errorf("used %+v, in truth %+v", end.Usage, want)
			}
			ending := "completed: "
			if other, ok := endings[r.File]; ok {
				ending = other
			}
			if got := end.Status + ": " + end.Message; !strings.HasPrefix(got, ending) {
				t.Errorf("it ended %q, not %q", got, ending)
			}
			if gone := strings.HasPrefix(r.File, "resume-unknown") || strings.HasPrefix(r.File, "resume-other"); end.NoSession != gone || end.Again {
				t.Errorf("%+v", end)
			}
			sound(t, events)
		})
	}
}

// sound is what holds of every turn's events.
func sound(t *testing.T, events []api.TurnEvent) {
	t.Helper()
	calls := map[string]bool{}
	for _, e := range events {
		switch e.Type {
		case api.EventToolCall:
			calls[e.ID] = true
		case api.EventToolResult:
			if !calls[e.ID] {
				t.Errorf("a result of %q, which was not called", e.ID)
			}
		case api.EventText:
			if strings.HasPrefix(e.Text, "API Error") {
				t.Errorf("an error for an answer: %q", e.Text)
			}
		}
	}
	var f agent.Fold
	f.Add(events...)
	for _, b := range f.Blocks() {
		if b.Truncated {
			t.Errorf("cut: %+v", b)
		}
	}
}

// Reading on from any step, and in chunks of any size, gives the same.
func TestReadingOnFromEveryStep(t *testing.T) {
	testkit.Proves(t, "C4")
	for _, r := range recordings(t) {
		b := &tape{out: r.stdout(t), err: []byte(r.Err), chunk: 1 << 20, exit: r.exit()}
		_, whole, end := play(t, b, agent.Cursor{})
		for _, chunk := range []int{7, 333} {
			b.chunk = chunk
			steps, events, again := play(t, b, agent.Cursor{})
			if diff := cmp.Diff(whole, events) + cmp.Diff(end, again); diff != "" {
				t.Fatalf("%s in chunks of %d: %s", r.File, chunk, diff)
			}
			seen := 0
			for i, s := range steps {
				if seen += len(s.Events); chunk > 7 || i%4 == 0 {
					_, rest, last := play(t, b, s.Cursor)
					if diff := cmp.Diff(whole[seen:], rest, equalEmpty) + cmp.Diff(end, last); diff != "" {
						t.Fatalf("%s from step %d: %s", r.File, i, diff)
					}
				}
				if len(s.Cursor.State) > 8<<10 {
					t.Errorf("%s: a state of %d bytes", r.File, len(s.Cursor.State))
				}
			}
		}
	}
}

var equalEmpty = cmpopts.EquateEmpty()

func TestPartialMessages(t *testing.T) {
	out, err := os.ReadFile("testdata/partial-messages.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	_, events, end := play(t, &tape{out: out, chunk: 100}, agent.Cursor{})
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, e.Type)
		if len(e.Raw) == 0 {
			t.Errorf("no line with %+v", e)
		}
	}
	want := "status thinking.delta thinking.delta thinking text.delta text.delta text.delta text tool.call usage tool.result text.delta text usage usage"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if s := events[0]; s.Status != "session_started" || s.Session != "77bcef50-abbc-4f0d-b5ae-e5e9ecd8e6af" || s.Model != "claude-opus-4-8[1m]" {
		t.Errorf("%+v", s)
	}
	first, last := events[9].Usage, events[len(events)-1].Usage
	if *first != (api.Usage{InputTokens: 100, OutputTokens: 20, CacheWriteTokens: 1000, Estimated: true}) || last.Estimated || *last != end.Usage {
		t.Errorf("%+v, then %+v", first, last)
	}
	if end.Model != "claude-opus-4-8" || end.CostUSD != 0.008843 {
		t.Errorf("%+v", end)
	}
	var f agent.Fold
	f.Add(events...)
	var blocks []string
	for _, b := range f.Blocks() {
		blocks = append(blocks, b.Type)
	}
	if got := strings.Join(blocks, " "); got != "thinking text tool_use tool_result text" {
		t.Errorf("the message has %s", got)
	}
}

func TestRetriesAreTold(t *testing.T) {
	out, err := os.ReadFile("testdata/retry-then-ok.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	_, events, _ := play(t, &tape{out: out, chunk: 100}, agent.Cursor{})
	if e := events[1]; e.Status != "retrying" || e.Message != "the model's service answered 529; try 1 of 10 in 0.5 s" {
		t.Errorf("%+v", e)
	}
}
