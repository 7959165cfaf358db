package transcript

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

func TestCodec(t *testing.T) {
	m := api.Message{ID: "m", ConversationID: "c", Content: []api.Block{{Type: api.BlockText, Text: "hello"}}}
	body, err := Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Decode("m", body); err != nil || got.Text() != "hello" || got.ID != "m" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := Decode("m", "{"); fault.CodeOf(err) != api.CodeInternal || !strings.Contains(err.Error(), "read message m") {
		t.Errorf("what is no JSON: %v", err)
	}
	for want, change := range map[api.Code]func(*api.Message){
		api.CodeTooLarge:       func(m *api.Message) { m.Error = strings.Repeat("x", MaxMessage) },
		api.CodeInvalidRequest: func(m *api.Message) { m.ID = "a:b" },
	} {
		m := m
		change(&m)
		if _, err := Encode(m); fault.CodeOf(err) != want {
			t.Errorf("%s: %v", want, err)
		}
	}
	m.Content = []api.Block{{Type: api.BlockToolUse, Input: json.RawMessage("{")}}
	if _, err := Encode(m); fault.CodeOf(err) != api.CodeInvalidRequest {
		t.Errorf("arguments that are no JSON: %v", err)
	}
	if err := Missing("m"); fault.CodeOf(err) != api.CodeNotFound {
		t.Error(err)
	}
}

func TestPage(t *testing.T) {
	for limit, want := range map[int]int{-1: DefaultLimit, 0: DefaultLimit, 1: 1, MaxLimit: MaxLimit, MaxLimit + 1: MaxLimit} {
		if got, err := (Page{Limit: limit}).Check(); got != want || err != nil {
			t.Errorf("%d is %d, %v", limit, got, err)
		}
	}
	if _, err := (Page{After: "a b"}).Check(); fault.CodeOf(err) != api.CodeInvalidCursor {
		t.Errorf("%v", err)
	}
}

// broken is a store whose second page fails.
type broken struct{ Store }

var errBroken = errors.New("broken")

func (broken) List(_ context.Context, _, _ string, p Page) ([]api.Message, string, error) {
	if p.After == "" {
		return []api.Message{{ID: "1"}, {ID: "2"}}, "2", nil
	}
	return nil, "", errBroken
}

func TestAllEndsWithAnError(t *testing.T) {
	var ids []string
	var last error
	for m, err := range All(t.Context(), broken{}, "acme", "c") {
		ids, last = append(ids, m.ID), err
	}
	if len(ids) != 3 || !errors.Is(last, errBroken) {
		t.Errorf("%q, %v", ids, last)
	}
	for range All(t.Context(), broken{}, "acme", "c") {
		break
	}
}
