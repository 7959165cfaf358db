package tool_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/tool"
	"github.com/berthdev/berth/internal/tool/tooltest"
)

// args are the arguments of a call.
type args = map[string]any

// world is a sandbox and the tools on it, with a neighbour that nothing may reach.
type world struct {
	t *testing.T
	*tooltest.Box
	outside string // holds secret, with the canary
}

const canary = "the canary outside"

var builtin = tool.Builtin()

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, Box: tooltest.New(t), outside: t.TempDir()}
	w.put(filepath.Join(w.outside, "secret"), canary)
	return w
}

func (w *world) at(path string) string { return filepath.Join(w.Workspace(), path) }

// put writes a file behind the tools' back.
func (w *world) put(path, content string) {
	w.t.Helper()
	if !filepath.IsAbs(path) {
		path = w.at(path)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		w.t.Fatal(err)
	}
}

// holds fails unless a file has the content.
func (w *world) holds(path, content string) {
	w.t.Helper()
	if !filepath.IsAbs(path) {
		path = w.at(path)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != content {
		w.t.Errorf("%s holds %.200q, %v; want %.200q", path, got, err, content)
	}
}

// untouched fails unless the neighbour is as it was.
func (w *world) untouched() {
	w.t.Helper()
	w.holds(filepath.Join(w.outside, "secret"), canary)
	if entries, err := os.ReadDir(w.outside); err != nil || len(entries) != 1 {
		w.t.Errorf("outside: %v, %v", entries, err)
	}
}

// try calls a tool.
func (w *world) try(name string, in any, more ...float64) (api.ToolResult, error) {
	w.t.Helper()
	raw, ok := in.(string)
	if !ok {
		text, err := json.Marshal(in)
		if err != nil {
			w.t.Fatal(err)
		}
		raw = string(text)
	}
	want := api.ExecuteTool{ToolName: name, Arguments: json.RawMessage(raw)}
	for _, timeout := range more {
		want.Timeout = timeout
	}
	result, err := builtin.Call(w.t.Context(), w.Handle(), want)
	if err == nil {
		w.bounded(name, result)
	}
	return result, err
}

// bounded is what holds for every result.
func (w *world) bounded(name string, r api.ToolResult) {
	w.t.Helper()
	image := len(r.Content) == 2 && r.Content[1].Type == api.ContentImage && len(r.Content[1].Data) <= 3<<20
	if len(r.Content) != 1 && !image || r.Content[0].Type != "text" || len(r.Text()) > 31_000 || !utf8.ValidString(r.Text()) {
		w.t.Errorf("%s answers %d pieces of %d bytes", name, len(r.Content), len(r.Text()))
	}
	if strings.TrimSpace(r.Text()) == "" {
		w.t.Errorf("%s says nothing", name)
	}
}

// call calls a tool that answers.
func (w *world) call(name string, in any, more ...float64) api.ToolResult {
	w.t.Helper()
	result, err := w.try(name, in, more...)
	if err != nil {
		w.t.Fatalf("%s: %v", name, err)
	}
	return result
}

// ok calls a tool that does what it is asked for and returns its text.
func (w *world) ok(name string, in any) string {
	w.t.Helper()
	result := w.call(name, in)
	if result.IsError {
		w.t.Fatalf("%s: %s", name, result.Text())
	}
	return result.Text()
}

// no calls a tool that cannot do it, and says something about each of the words.
func (w *world) no(name string, in any, words ...string) {
	w.t.Helper()
	result := w.call(name, in)
	if !result.IsError {
		w.t.Errorf("%s %v did it: %.300s", name, in, result.Text())
	}
	has(w.t, result.Text(), words...)
}

func has(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("no %q in %.500q", word, text)
		}
	}
}

func is(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %.500q, want %.500q", what, got, want)
	}
}

func isCode(t *testing.T, what string, err error, code api.Code) {
	t.Helper()
	if got := fault.CodeOf(err); err == nil || got != code {
		t.Errorf("%s: %v (%s), want %s", what, err, got, code)
	}
}
