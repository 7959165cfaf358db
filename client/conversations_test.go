package client_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

func TestConversationCalls(t *testing.T) {
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body)))
		switch at := strings.TrimPrefix(r.URL.Path, "/api/v1/"); {
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		case at == "conversations" && r.Method == http.MethodPost:
			answer(w, http.StatusCreated, api.Conversation{ID: "c1"})
		case at == "conversations":
			answer(w, http.StatusOK, api.List[api.Conversation]{Items: []api.Conversation{{ID: "c1"}}})
		case strings.HasSuffix(at, "/messages"):
			answer(w, http.StatusOK, api.List[api.Message]{Items: []api.Message{{ID: "m1"}}})
		case strings.HasSuffix(at, "/turns"):
			answer(w, http.StatusOK, api.List[api.Turn]{Items: []api.Turn{{ID: "t1"}}})
		case strings.HasSuffix(at, "/export"):
			fmt.Fprint(w, "# Notes")
		case strings.HasSuffix(at, "/sandbox"):
			answer(w, http.StatusCreated, api.ConversationSandbox{SandboxID: "s1"})
		case strings.HasSuffix(at, "/cancel"):
			answer(w, http.StatusAccepted, api.Turn{ID: "t1"})
		case at == "usage":
			answer(w, http.StatusOK, api.UsageReport{Total: api.UsageItem{Messages: 4}})
		default:
			answer(w, http.StatusOK, api.Conversation{ID: "c1"})
		}
	})
	s, ctx := c.Conversations, t.Context()
	check := func(what string, ok bool, err error) {
		t.Helper()
		if err != nil || !ok {
			t.Errorf("%s: %v, %v", what, ok, err)
		}
	}
	made, isNew, err := s.Create(ctx, api.CreateConversation{Title: "x"})
	check("create", made.ID == "c1" && isNew, err)
	got, err := s.Get(ctx, "c1")
	check("get", got.ID == "c1", err)
	for one, err := range s.List(ctx, client.ConversationFilter{SandboxID: "s1"}) {
		check("list", one.ID == "c1", err)
	}
	for one, err := range s.Messages(ctx, "c1") {
		check("messages", one.ID == "m1", err)
	}
	for one, err := range s.Newest(ctx, "c1") {
		check("newest", one.ID == "m1", err)
	}
	message, err := s.Message(ctx, "c1", "c1")
	check("message", message.ID == "c1", err)
	for one, err := range s.Turns(ctx, "c1") {
		check("turns", one.ID == "t1", err)
	}
	turn, err := s.Turn(ctx, "c1", "c1")
	check("turn", turn.ID == "c1", err)
	turn, err = s.Cancel(ctx, "c1", "t1")
	check("cancel", turn.ID == "t1", err)
	box, isNew, err := s.Ensure(ctx, "c1")
	check("ensure", box.SandboxID == "s1" && isNew, err)
	d, err := s.Export(ctx, "c1", "markdown")
	check("export", err == nil, err)
	text, err := io.ReadAll(d)
	check("export", string(text) == "# Notes" && d.Size == -1, err)
	_ = d.Close()
	check("delete", true, s.Delete(ctx, "c1", client.KeepSandbox(), client.SkipSave()))
	check("delete", true, s.Delete(ctx, "c1", client.EndSandbox()))
	report, err := c.Usage(ctx, client.UsageFilter{From: "2026-11-01", By: []string{"day", "model"}})
	check("usage", report.Total.Messages == 4, err)
	const at = "/api/v1/conversations"
	want := []string{
		"POST " + at + ` {"title":"x"}`, "GET " + at + "/c1", "GET " + at + "?limit=200&sandbox_id=s1",
		"GET " + at + "/c1/messages?limit=200", "GET " + at + "/c1/messages?limit=200&order=desc", "GET " + at + "/c1/messages/c1",
		"GET " + at + "/c1/turns?limit=200", "GET " + at + "/c1/turns/c1", "POST " + at + "/c1/turns/t1/cancel", "POST " + at + "/c1/sandbox", "GET " + at + "/c1/export?format=markdown",
		"DELETE " + at + "/c1?sync=false&terminate_sandbox=false", "DELETE " + at + "/c1?terminate_sandbox=true",
		"GET /api/v1/usage?from=2026-11-01&group_by=day%2Cmodel",
	}
	if got := strings.Join(asked, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("asked\n%s", got)
	}
}

func TestDeleteWhoseAnswerWasLostIsDone(t *testing.T) {
	sent := 0
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if sent++; sent == 1 {
			panic(http.ErrAbortHandler)
		}
		refuse(w, api.NewProblem(api.CodeDeleted, "c1 was deleted"))
	})
	if err := c.Conversations.Delete(t.Context(), "c1"); err != nil {
		t.Error(err)
	}
	if err := c.Conversations.Delete(t.Context(), "c1"); problemOf(t, err).Code != api.CodeDeleted {
		t.Errorf("one that was deleted before: %v", err)
	}
}
