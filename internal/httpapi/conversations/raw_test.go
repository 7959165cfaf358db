package conversations

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berthdev/berth/api"
)

func rawless(data []byte) []byte {
	head, tail := withoutRaw(data)
	return append(bytes.Clone(head), tail...)
}

func TestWithoutRaw(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"text","text":"a"}`:                             `{"type":"text","text":"a"}`,
		`{"type":"text","text":"a","raw":{"b":1}}`:               `{"type":"text","text":"a"}`,
		`{"type":"text","raw":"}\\\",","at":[1,{}]}`:             `{"type":"text","at":[1,{}]}`,
		`{"type":"tool.call","input":{"a":1,"raw":2},"raw":[1]}`: `{"type":"tool.call","input":{"a":1,"raw":2}}`,
		`{"type":"tool.call","input":[{"a":1,"raw":2}]}`:         `{"type":"tool.call","input":[{"a":1,"raw":2}]}`,
		`{"type":"text","text":",\"raw\":1"}`:                    `{"type":"text","text":",\"raw\":1"}`,
		// None of ours:
		`{"type":"text","raw":`:       `{"type":"text","raw":`,
		`{"type":"text","raw":"`:      `{"type":"text","raw":"`,
		`{"type":"text","raw":1]`:     `{"type":"text","raw":1]`,
		`{"type":"te,"raw":1}`:        `{"type":"te,"raw":1}`,
		`["type","raw":1]`:            `["type","raw":1]`,
		`{"type":"text"}{"a","raw":1`: `{"type":"text"}{"a","raw":1`,
		`,"raw":`:                     `,"raw":`,
		``:                            ``,
	} {
		if got := string(rawless([]byte(text))); got != want {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// decoded takes the raw part out by way of the event itself.
func decoded(t *rapid.T, data []byte) (e api.TurnEvent) {
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	e.Raw = nil
	return e
}

// Cutting the raw part out is the same as never having had it, and as decoding, clearing and encoding.
func TestWithoutRawIsAsIfThereWasNone(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune(`,"raw:{}[]\ `))),
		rapid.SampledFrom([]string{"", `,"raw":`, `","raw":{`, `\`, `\"`, `\\",`, `{"raw":1,"raw":2}`, "<&>\u2028"}))
	inner := rapid.Custom(func(t *rapid.T) any {
		return rapid.OneOf(rapid.Map(text, anything), rapid.Just(any(nil)), rapid.Map(rapid.Float64(), func(f float64) any { return f })).Draw(t, "leaf")
	})
	key := rapid.OneOf(rapid.Just("raw"), rapid.Just("a"), text)
	for range 3 {
		inner = nested(inner, key)
	}
	rapid.Check(t, func(t *rapid.T) {
		part := func(name string) json.RawMessage {
			if rapid.Bool().Draw(t, "no "+name) {
				return nil
			}
			data, err := json.Marshal(inner.Draw(t, name))
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		e := api.TurnEvent{
			Type: text.Draw(t, "type"), Text: text.Draw(t, "text"), Name: text.Draw(t, "name"), Input: part("input"), Raw: part("raw"),
			Warnings: rapid.SliceOf(text).Draw(t, "warnings"), CostUSD: rapid.Float64().Draw(t, "cost"),
		}
		if rapid.Bool().Draw(t, "at") {
			at := time.Unix(rapid.Int64Range(0, 1<<32).Draw(t, "time"), 0).UTC()
			e.At, e.Usage = &at, &api.Usage{InputTokens: 1}
		}
		with := marshal(t, e)
		e.Raw = nil
		got, kept := rawless(with), marshal(t, e)
		if !bytes.Equal(got, kept) {
			t.Fatalf("%s\nbecame %s\ninstead of %s", with, got, kept)
		}
		if diff := cmp.Diff(decoded(t, with), decoded(t, got)); diff != "" {
			t.Fatalf("%s: %s", with, diff)
		}
	})
}

func anything(s string) any { return s }

// nested is a value, or some in a list or an object.
func nested(of *rapid.Generator[any], key *rapid.Generator[string]) *rapid.Generator[any] {
	return rapid.OneOf(of,
		rapid.Map(rapid.SliceOfN(of, 0, 3), func(s []any) any { return s }),
		rapid.Map(rapid.MapOfN(key, of, 0, 3), func(m map[string]any) any { return m }))
}

func marshal(t *rapid.T, e api.TurnEvent) []byte {
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The sent part of any log is a part of it.
func TestWithoutRawOfAnything(t *testing.T) {
	letters := rapid.SampledFrom([]string{`{`, `}`, `[`, `]`, `"`, `\`, `,`, `:`, `raw`, `,"raw":`, `{"a":1`, ` `})
	rapid.Check(t, func(t *rapid.T) {
		data := []byte(nil)
		for _, s := range rapid.SliceOf(letters).Draw(t, "letters") {
			data = append(data, s...)
		}
		head, tail := withoutRaw(data)
		if !bytes.HasPrefix(data, head) || !bytes.HasSuffix(data, tail) || len(head)+len(tail) > len(data) {
			t.Fatalf("%q became %q and %q", data, head, tail)
		}
	})
}
