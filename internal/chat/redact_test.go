package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/testkit"
)

const theKey = "sk-ant-api03-canary-0123456789"

func redacting(t testing.TB, secrets ...string) *redaction {
	t.Helper()
	r := &redaction{secrets: new(telemetry.Redactor)}
	for i, s := range secrets {
		if !r.secrets.AddNamed(fmt.Sprint("KEY_", i), s) {
			t.Fatalf("%q is too short", s)
		}
	}
	return r
}

func delta(text string) api.TurnEvent {
	raw, _ := json.Marshal(map[string]string{"delta": text})
	return api.TurnEvent{Type: api.EventTextDelta, Text: text, Raw: raw}
}

// stepsOf makes a step of each event, with the number of events so far as its offset.
func stepsOf(events ...api.TurnEvent) (steps []agent.Step) {
	for i, e := range events {
		steps = append(steps, agent.Step{Events: []api.TurnEvent{e}, Cursor: agent.Cursor{Offset: int64(i + 1)}})
	}
	return steps
}

// pass takes the steps and the end of the turn, and returns the stored events.
func (r *redaction) pass(steps []agent.Step) (stored []api.TurnEvent, offsets []int64) {
	for _, s := range append(steps, agent.Step{End: &agent.End{}}) {
		if ready, ok := r.take(s); ok {
			stored, offsets = append(stored, ready.Events...), append(offsets, ready.Cursor.Offset)
		}
	}
	return stored, offsets
}

func textOf(events []api.TurnEvent) (text string) {
	for _, e := range events {
		text += e.Text
	}
	return text
}

// A secret is replaced however the agent splits it, and the rest of the text stays as it is.
func TestSecretSplitOverDeltasIsReplaced(t *testing.T) {
	testkit.Proves(t, "E5")
	const before, after = "The key is s sk-ant, that is: ", ". It ends with sk-ant-api03-canar, not more. sk"
	text := before + theKey + after
	for round := range 500 {
		random := rand.New(rand.NewPCG(uint64(round), 7))
		var events []api.TurnEvent
		for rest := text; rest != ""; {
			n := min(len(rest), 1+random.IntN(1+round%20))
			events = append(events, delta(rest[:n]))
			rest = rest[n:]
			if random.IntN(10) == 0 {
				events = append(events, api.TurnEvent{Type: api.EventUsage})
			}
		}
		stored, _ := redacting(t, theKey).pass(stepsOf(events...))
		if got, want := textOf(stored), before+"[redacted:KEY_0]"+after; got != want {
			t.Fatalf("round %d: %q", round, got)
		}
		if raw := fmt.Sprintf("%s", encode(stored)); strings.Contains(raw, theKey[8:]) || strings.Contains(raw, "canary-0") {
			t.Fatalf("round %d: a raw line has a part of the secret: %s", round, raw)
		}
		for _, e := range stored {
			if e.Type == api.EventTextDelta && e.Text == "" {
				t.Fatalf("round %d: an empty delta is stored", round)
			}
		}
	}
}

// Steps that are held back are not stored with their position, so that the next holder reads them again; all others are
// stored at once.
func TestOnlyWhatMayBeginASecretIsHeldBack(t *testing.T) {
	r := redacting(t, theKey)
	for i, c := range []struct {
		event  api.TurnEvent
		stored string // by this step; "-": nothing
		offset int64
	}{
		{delta("hello"), "hello", 1},
		{delta("so "), "so ", 2},
		{delta("sk-a"), "-", 0},
		{api.TurnEvent{Type: api.EventUsage}, "-", 0},
		{delta("nt-other"), "sk-ant-other", 5},
		{delta("ends"), "-", 0},
		{api.TurnEvent{Type: api.EventToolCall, Name: "bash"}, "ends", 7},
		{delta("s"), "-", 0},
		{api.TurnEvent{Type: api.EventThinkingDelta, Text: "k-ant-api03-canary-0123456789"}, "sk-ant-api03-canary-0123456789", 9}, // another text
	} {
		step := stepsOf(c.event)[0]
		step.Cursor.Offset = int64(i + 1)
		ready, ok := r.take(step)
		if ok != (c.stored != "-") || ok && (textOf(ready.Events) != c.stored || ready.Cursor.Offset != c.offset) {
			t.Errorf("step %d: stored %v %q up to %d", i+1, ok, textOf(ready.Events), ready.Cursor.Offset)
		}
	}
	broken := errors.New("the connection broke")
	first := func(yield func(agent.Step, error) bool) {
		_ = yield(stepsOf(delta("sk-ant-"))[0], nil) && yield(agent.Step{}, broken)
	}
	for step, err := range r.steps(first) {
		if err != broken {
			t.Errorf("%+v is stored", step)
		}
	}
	again := func(yield func(agent.Step, error) bool) { yield(stepsOf(delta("api03-"))[0], nil) }
	for step, err := range r.steps(again) {
		if err != nil || textOf(step.Events) != "api03-" {
			t.Errorf("a new reading begins with what the last one held back: %q, %v", textOf(step.Events), err)
		}
	}
	r.take(stepsOf(delta("sk-ant-"))[0])
	if rest := r.rest(); textOf(rest.Events) != "sk-ant-" || rest.Cursor.Offset != 1 {
		t.Errorf("what was held back: %+v", rest)
	}
}

// Every part of an event that comes from the agent is looked at, in the forms that it may have there.
func TestEveryPartOfAnEventIsRedacted(t *testing.T) {
	const odd = "pass\"word\\of <the> räuber"
	inJSON, _ := json.Marshal(odd)
	twice, _ := json.Marshal(string(inJSON))
	e := api.TurnEvent{
		Type: api.EventToolResult, Text: "a " + odd + " b", Message: odd, Name: theKey,
		Input: json.RawMessage(`{"a":` + string(inJSON) + `,"b":` + string(twice) + `}`), Raw: json.RawMessage(`[` + string(inJSON) + `]`),
	}
	stored, _ := redacting(t, odd, theKey).pass(stepsOf(e))
	got := stored[0]
	if got.Text != "a [redacted:KEY_0] b" || got.Message != "[redacted:KEY_0]" || got.Name != "[redacted:KEY_1]" ||
		string(got.Input) != `{"a":"[redacted:KEY_0]","b":"\"[redacted:KEY_0]\""}` || string(got.Raw) != `["[redacted:KEY_0]"]` {
		t.Errorf("%+v\n%s\n%s", got, got.Input, got.Raw)
	}
	cut := api.TurnEvent{Type: api.EventToolResult, Text: "cut in " + theKey[:20], Cut: true}
	structure := api.TurnEvent{Type: api.EventToolCall, Input: json.RawMessage(`{"the":"structure"}`)}
	stored, _ = redacting(t, theKey, `":"structure"`).pass(stepsOf(cut, structure))
	if stored[0].Text != "cut in [redacted]" || stored[1].Input != nil {
		t.Errorf("%q, %s", stored[0].Text, stored[1].Input)
	}
	step := agent.Step{Cursor: agent.Cursor{State: json.RawMessage(`{"stderr":"no such key: ` + theKey + `"}`)}}
	if ready, ok := redacting(t, theKey).take(step); !ok || string(ready.Cursor.State) != `{"stderr":"no such key: [redacted:KEY_0]"}` {
		t.Errorf("state %s", ready.Cursor.State)
	}
}

// API keys are known by their form. Short values are left alone, and without a redaction everything is.
func TestKeysByFormAndShortValues(t *testing.T) {
	key := "berth_" + strings.Repeat("a1B2c3D", 7)
	r := redacting(t)
	if r.secrets.AddNamed("SHORT", "1234567") {
		t.Error("a value of seven characters is a secret")
	}
	stored, _ := r.pass(stepsOf(delta("my key: "+key[:30]), delta(key[30:]+", 1234567")))
	if got := textOf(stored); got != "my key: [redacted], 1234567" {
		t.Errorf("%q", got)
	}
	var none *redaction
	for step := range none.steps(func(yield func(agent.Step, error) bool) { yield(stepsOf(delta(key))[0], nil) }) {
		if textOf(step.Events) != key || none.text(key, true) != key {
			t.Error("without a redaction something is replaced")
		}
	}
}

// An agent that prints its secret slowly, or beginnings of it again and again, costs little.
func TestHostileDeltasAreCheap(t *testing.T) {
	secret := strings.Repeat("ab", 2<<10)
	r := redacting(t, secret)
	var stored int
	for range 3 {
		for i := range len(secret) - 1 {
			if ready, ok := r.take(stepsOf(delta(secret[i : i+1]))[0]); ok {
				stored += len(ready.Events)
			}
		}
		if ready, ok := r.take(stepsOf(delta("x"))[0]); ok {
			stored += len(ready.Events)
		}
	}
	if stored != 3*len(secret) {
		t.Errorf("%d events are stored", stored)
	}
	large := delta("a")
	large.Raw = json.RawMessage(`"` + strings.Repeat("x", maxHeld) + `"`)
	if ready, ok := r.take(stepsOf(large)[0]); !ok || len(ready.Events) != 1 {
		t.Error("more than maxHeld is held back")
	}
}

func BenchmarkRedactDelta(b *testing.B) {
	for name, secrets := range map[string][]string{"none": nil, "one": {theKey}, "hundred": manySecrets()} {
		b.Run(name, func(b *testing.B) {
			r := redacting(b, secrets...)
			step := stepsOf(delta("a delta of about thirty bytes, or so"))[0]
			step.Events[0].Raw = json.RawMessage(`{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a delta of about thirty bytes, or so"}},"session_id":"0197","parent_tool_use_id":null}`)
			for b.Loop() {
				r.take(agent.Step{Events: []api.TurnEvent{step.Events[0]}, Cursor: step.Cursor})
			}
		})
	}
}

func manySecrets() (all []string) {
	for i := range 100 {
		all = append(all, fmt.Sprintf("%s-%d", theKey, i))
	}
	return all
}
