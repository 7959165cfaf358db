package claudecli

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/template/program"
	"github.com/berthdev/berth/internal/testkit"
)

// lines plays lines, and then the end of the process.
func lines(t testing.TB, lines ...string) ([]api.TurnEvent, agent.End) {
	t.Helper()
	_, events, end := play(t, &tape{out: []byte(strings.Join(lines, "\n") + "\n"), chunk: 1 << 16}, agent.Cursor{})
	return events, end
}

const ok = `{"type":"result","subtype":"success","is_error":false,"modelUsage":{"m":{"inputTokens":1}}}`

func TestLinesThatAreNone(t *testing.T) {
	events, end := lines(t,
		"", "   ", "hello", "[]", "3", "null", `"text"`, `{`, `{"type":3}`, `{"type":""}`, `{"no":"type"}`, "\xff\xfe\x00",
		`{"type":"assistant"}`, `{"type":"assistant","message":null}`, `{"type":"assistant","message":{"content":3}}`,
		`{"type":"assistant","message":{"content":[{"type":3}]}}`, `{"type":"user","message":{"content":[{}]}}`,
		`{"type":"stream_event","event":null}`, `{"type":"stream_event","event":{"type":"message_stop","usage":"x"}}`,
		`{"type":"system","subtype":"nobody_knows_yet","x":{"y":[1,2]}}`, `{"type":"invented"}`,
		`{"type":"result","is_error":"perhaps"}`, strings.Repeat("[", 100_000), `{"type":`+strings.Repeat(`{"a":`, 20_000), ok)
	if len(events) != 1 || end.Status != api.TurnCompleted || end.Usage != (api.Usage{InputTokens: 1}) {
		t.Errorf("%+v, %+v", events, end)
	}
}

func TestContentOfEveryKind(t *testing.T) {
	events, _ := lines(t,
		`{"type":"assistant","message":{"id":"a","content":"a text alone"}}`,
		`{"type":"assistant","message":{"id":"b","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{"q":1}},{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result"}]},{"type":"redacted_thinking"},{"type":"text","text":"nul \u0000 here"}]}}`,
		`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"x"},{"type":"image","source":{}}],"is_error":true},{"type":"tool_result","tool_use_id":"u"},{"type":"tool_result","tool_use_id":"v","content":{"odd":1}}]},"parent_tool_use_id":"p"}`,
		ok)
	var got []string
	for _, e := range events {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s %q %s %v", e.Type, e.ID, e.Name, e.Text, e.Parent, e.Error)))
	}
	want := []string{
		`text   "a text alone"  false`, `tool.call s web_search ""  false`, `tool.result s  "[web_search_result]"  false`, `text   "nul ` + "\uFFFD" + ` here"  false`,
		`tool.result t  "x\n[image]" p true`, `tool.result u  "" p false`, `tool.result v  "{\"odd\":1}" p false`, `usage   ""  false`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What no database stores does not get that far.
func TestBytesThatAreNoText(t *testing.T) {
	events, _ := lines(t, `{"type":"assistant","message":{"id":"a","content":[{"type":"tool_use","id":"x`+"\xff"+`","name":"n","input":{"a":"`+"\xfe\x80"+`"}}]}}`)
	if len(events) != 1 || !utf8.Valid(events[0].Input) || !utf8.Valid(events[0].Raw) || !utf8.ValidString(events[0].ID) {
		t.Errorf("%+v", events)
	}
}

// Impossible numbers are bounded, and long texts are cut with a note.
func TestBounds(t *testing.T) {
	big, name := strings.Repeat("ö", 1<<20), strings.Repeat("ö", 1000)
	events, end := lines(t,
		`{"type":"assistant","message":{"id":"`+name+`","model":"`+name+`","content":[{"type":"text","text":"`+big+`"},{"type":"tool_use","id":"`+name+`","name":"`+name+`","input":"`+big+`"}]}}`,
		`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"`+big+`"}]}}`,
		`{"type":"result","is_error":true,"result":"`+big+`","total_cost_usd":-3,"modelUsage":{"a":{"inputTokens":1e300,"outputTokens":-5},"b":{"cacheReadInputTokens":7}}}`)
	for _, e := range events {
		if len(e.Text) > 1<<20 || len(e.ID) > 200 || len(e.Name) > 200 || len(e.Model) > 200 || len(e.Input) > 0 || len(e.Raw) > 0 || !utf8.ValidString(e.Text) {
			t.Errorf("%s: text %d, raw %d", e.Type, len(e.Text), len(e.Raw))
		}
		if e.Type != api.EventUsage && !e.Cut {
			t.Errorf("%s does not say that it was cut", e.Type)
		}
	}
	if end.Usage != (api.Usage{InputTokens: 1 << 40, CacheReadTokens: 7}) || end.CostUSD != 0 || len(end.Message) > 1<<10 || end.Status != api.TurnFailed {
		t.Errorf("%+v", end)
	}
}

// An agent of many sub-agents does not make the state grow.
func TestStateIsSmall(t *testing.T) {
	var all []string
	for i := range 500 {
		all = append(all, fmt.Sprintf(`{"type":"assistant","message":{"id":"m%d","usage":{"input_tokens":1,"output_tokens":2},"content":"x"},"parent_tool_use_id":"p%d"}`, i, i))
	}
	steps, _, end := play(t, &tape{out: []byte(strings.Join(all, "\n") + "\n"), chunk: 1 << 10}, agent.Cursor{})
	for _, s := range steps {
		if len(s.Cursor.State) > 8<<10 {
			t.Fatalf("a state of %d bytes", len(s.Cursor.State))
		}
	}
	if want := (api.Usage{InputTokens: 500, OutputTokens: 1000, Estimated: true}); end.Usage != want {
		t.Errorf("%+v", end.Usage)
	}
}

// The first turn of a session says that the CLI is newer than the tested one, later turns do not.
func TestUntestedVersion(t *testing.T) {
	if v := fmt.Sprintf("%d.%d.%d", testedVersion[0], testedVersion[1], testedVersion[2]); v != program.ClaudeCode.Tested() {
		t.Errorf("tested up to %s, installed is %s", v, program.ClaudeCode.Tested())
	}
	for version, warned := range map[string]bool{
		"2.1.325": false, "2.1.197": false, "2.1.326": true, "2.2.0": true, "3.0.0-beta": true, "10.0.0": true, "": false, "new": false, "2.1": false,
	} {
		for _, resumed := range []bool{false, true} {
			r := &reader{resumed: resumed}
			events, _ := r.Line([]byte(`{"type":"system","subtype":"init","session_id":"s","model":"m","claude_code_version":"` + version + `"}`))
			if got := len(events) == 2 && events[1].Status == agent.StatusUntested && strings.Contains(events[1].Message, version); got != (warned && !resumed) {
				t.Errorf("%q, resumed %t: %+v", version, resumed, events)
			}
		}
	}
}

// The usage is that of the last result, and of the lines after it.
func TestWorkBehindAResult(t *testing.T) {
	_, end := lines(t, ok, `{"type":"system","subtype":"init"}`,
		`{"type":"stream_event","event":{"type":"message_start","message":{"id":"x","model":"m","usage":{"input_tokens":10,"output_tokens":1}}}}`,
		`{"type":"stream_event","event":{"type":"message_delta","usage":{"output_tokens":5}}}`,
		`{"type":"stream_event","event":{"type":"message_delta","usage":{"output_tokens":9}}}`)
	if want := (api.Usage{InputTokens: 11, OutputTokens: 9, Estimated: true}); end.Usage != want || end.Status != api.TurnFailed {
		t.Errorf("%+v", end)
	}
	// A result of a CLI that tells no figures of each model.
	_, end = lines(t, `{"type":"result","is_error":false,"usage":{"input_tokens":3}}`)
	if want := (api.Usage{InputTokens: 3}); end.Usage != want {
		t.Errorf("%+v", end)
	}
}

// A resumed process gives the figures of the turn, or of the session so far, or both.
func TestFiguresOfAResumedSession(t *testing.T) {
	testkit.Proves(t, "C7")
	const (
		note  = `{"type":"cost-state","totalCostUSD":0.5,"modelUsage":{"m":{"inputTokens":400,"outputTokens":80,"cacheReadInputTokens":3000,"cacheCreationInputTokens":1000,"costUSD":0.5}}}`
		begin = `{"type":"system","subtype":"init","session_id":"s","model":"m"}`
		call  = `{"type":"stream_event","event":{"type":"message_start","message":{"id":"x","model":"m","usage":{"input_tokens":7,"output_tokens":1}}}}`
		count = `{"type":"stream_event","event":{"type":"message_delta","usage":{"output_tokens":9}}}`
		whole = `{"type":"result","is_error":false,"total_cost_usd":0.75,"modelUsage":{"m[1m]":{"inputTokens":407,"outputTokens":89,"cacheReadInputTokens":3005,"cacheCreationInputTokens":1006,"costUSD":0.75}}`
		own   = `{"type":"result","is_error":false,"total_cost_usd":0.25,"modelUsage":{"m":{"inputTokens":7,"outputTokens":9,"cacheReadInputTokens":5,"cacheCreationInputTokens":6,"costUSD":0.25}}`
		since = `,"model_usage_since_last_result":{"m":{"inputTokens":7,"outputTokens":9,"cacheReadInputTokens":5,"cacheCreationInputTokens":6,"costUSD":0.25}}`
	)
	turn := api.Usage{InputTokens: 7, OutputTokens: 9, CacheReadTokens: 5, CacheWriteTokens: 6}
	twice := turn.Add(turn)
	for name, c := range map[string]struct {
		lines []string
		want  api.Usage
		cost  float64
	}{
		"of the session":                   {[]string{note, begin, call, count, whole + "}"}, turn, 0.25},
		"of the session and the turn":      {[]string{note, begin, call, count, whole + since + "}"}, turn, 0.25},
		"of the turn, without a note":      {[]string{begin, call, count, whole + since + "}"}, turn, 0.25},
		"of the process, behind a note":    {[]string{note, begin, call, count, own + "}"}, turn, 0.25},
		"of the process":                   {[]string{begin, call, count, own + "}"}, turn, 0.25},
		"two results of the turn":          {[]string{note, begin, own + since + "}", begin, whole + since + "}"}, twice, 0.5},
		"two results of the process":       {[]string{begin, `{"type":"result","is_error":false,"total_cost_usd":0.1,"modelUsage":{"m":{"inputTokens":3}}}`, begin, call, count, own + "}"}, turn, 0.25},
		"a note that the agent wrote":      {[]string{begin, note, call, count, own + "}"}, turn, 0.25},
		"nothing used since":               {[]string{note, begin, note[:len(note)-1] + `,"type":"result","is_error":true,"total_cost_usd":0.5,"model_usage_since_last_result":{}}`}, api.Usage{}, 0},
		"a note of impossible figures":     {[]string{`{"type":"cost-state","totalCostUSD":-1,"modelUsage":{"m":{"inputTokens":-1e300,"outputTokens":1e300}}}`, begin, own + "}"}, turn, 0.25},
		"a note that is none":              {[]string{`{"type":"cost-state","modelUsage":[]}`, begin, own + "}"}, turn, 0.25},
		"a session that used nothing more": {[]string{note, begin, `{"type":"result","is_error":false,"total_cost_usd":0.5,` + note[strings.Index(note, `"modelUsage"`):]}, api.Usage{}, 0},
	} {
		if _, end := lines(t, c.lines...); end.Usage != c.want || math.Abs(end.CostUSD-c.cost) > 1e-9 {
			t.Errorf("%s: %+v for %v; want %+v for %v", name, end.Usage, end.CostUSD, c.want, c.cost)
		}
	}
}

// Recorded lines, damaged and in any order, break nothing.
func TestDamagedLines(t *testing.T) {
	var pool []string
	found, _ := filepath.Glob("testdata/*.jsonl")
	for _, name := range found {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		pool = append(pool, strings.Split(string(text), "\n")...)
	}
	rapid.Check(t, func(rt *rapid.T) {
		r := &reader{}
		for range rapid.IntRange(1, 20).Draw(rt, "lines") {
			line := []byte(rapid.SampledFrom(pool).Draw(rt, "line"))
			for range rapid.IntRange(0, 3).Draw(rt, "changes") {
				if len(line) > 0 {
					line[rapid.IntRange(0, len(line)-1).Draw(rt, "at")] = rapid.SampledFrom([]byte(`"{}[],:0-n\`)).Draw(rt, "byte")
				}
			}
			events, _ := r.Line(line)
			for _, e := range events {
				if _, err := json.Marshal(e); err != nil {
					rt.Fatalf("%+v: %v", e, err)
				}
			}
			state, err := json.Marshal(r.State())
			if err != nil {
				rt.Fatal(err)
			}
			if _, err := read(agent.Turn{}, state); err != nil {
				rt.Fatal(err)
			}
		}
		r.End()
	})
	if _, err := read(agent.Turn{}, json.RawMessage(`[]`)); err == nil {
		t.Error("a state that is none was taken")
	}
}
