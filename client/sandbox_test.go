package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/app"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/surface"
)

// server is a real server with local sandboxes.
var server struct{ URL, Key string }

func TestMain(m *testing.M) {
	code, err := withServer(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withServer(run func() int) (code int, err error) {
	guest, err := testkit.BinaryPath()
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "berth-client-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server.Key = "key-of-the-examples-of-package-client"
	cfg, err := config.Load(config.Sources{Values: map[string]string{
		"data_dir": dir, "listen": "127.0.0.1:0", "api_key": server.Key,
	}})
	if err != nil {
		return 1, err
	}
	s, err := app.NewServer(context.Background(), app.Options{Config: cfg, Exe: guest, Out: io.Discard, Log: io.Discard})
	if err != nil {
		return 1, err
	}
	server.URL = "http://" + s.Addr()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	code = run()
	stop()
	return code, errors.Join(<-served, s.Close())
}

// open returns a new sandbox that ends with the test.
func open(t *testing.T) *client.Sandbox {
	t.Helper()
	s, err := dialWith(t, server.URL, server.Key).Sandbox(t.Context(), api.CreateSandbox{Template: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Delete(context.Background(), false); err != nil {
			t.Error(err)
		}
	})
	return s
}

func dialWith(t *testing.T, url, key string) *client.Client {
	t.Helper()
	c, err := client.New(url, key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestBoundSandbox(t *testing.T) {
	s := open(t)
	if _, err := s.WriteFile(t.Context(), "", "src/main.go", strings.NewReader("package main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, err := range s.ListFiles(t.Context(), client.FileFilter{Depth: 2, Pattern: "*.go"}) {
		if err != nil || file.Path != "src/main.go" || file.Mode != "0600" {
			t.Errorf("list: %+v, %v", file, err)
		}
	}
	tree, err := s.FileTree(t.Context(), client.FileFilter{}, 0)
	if err != nil || len(tree.Children) != 1 || tree.Children[0].Children[0].Path != "src/main.go" {
		t.Errorf("tree: %+v, %v", tree, err)
	}
	if result, err := s.Exec(t.Context(), api.Exec{Command: api.Shell("exit 3")}); err != nil || result.ExitCode != 3 {
		t.Errorf("exec: %+v, %v", result, err)
	}
	volume, err := s.Volume(t.Context())
	if err != nil || volume == "" || volume != s.Model().Instance {
		t.Errorf("volume %q, %v", volume, err)
	}
	if synced, err := s.SyncFiles(t.Context()); err != nil || synced.Version == "" {
		t.Errorf("sync: %+v, %v", synced, err)
	}
	if err := s.Terminate(t.Context(), true); err != nil || s.Model().State != "terminated" {
		t.Errorf("terminate: %s, %v", s.Model().State, err)
	}
	if content, err := s.FileContent(t.Context(), "", "src/main.go"); err != nil || string(content) != "package main\n" {
		t.Errorf("of the newest version: %q, %v", content, err)
	}
	large := strings.NewReader(strings.Repeat("x", client.MaxFileContent+1))
	if _, err := s.WriteFile(t.Context(), "", "large", large, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.FileContent(t.Context(), "", "large"); problemOf(t, err).Code != api.CodeTooLarge {
		t.Errorf("a large file: %v", err)
	}
	if err := s.Stop(t.Context()); err != nil || s.Model().State != "stopped" {
		t.Errorf("stop: %s, %v", s.Model().State, err)
	}
}

func TestBoundSandboxKeepsItsConversation(t *testing.T) {
	s := open(t)
	var turn string
	events := 0
	for event, err := range s.ExecuteAgentStream(t.Context(), api.Prompt{Prompt: "write notes.txt: hello"}) {
		if err != nil {
			t.Fatal(err)
		}
		if events++; event.Type == api.EventTurnStarted {
			turn = event.TurnID
		}
	}
	conversation := s.Conversation()
	if got, err := s.Turn(t.Context(), turn); err != nil || got.Status != api.TurnCompleted || got.ConversationID != conversation {
		t.Errorf("turn: %+v, %v", got, err)
	}
	again := 0
	for _, err := range s.TurnEvents(t.Context(), turn, 1) {
		if again++; err != nil {
			t.Fatal(err)
		}
	}
	if again != events-1 {
		t.Errorf("%d events behind the first of %d", again, events)
	}
	if err := s.CancelTurn(t.Context(), turn); problemOf(t, err).Code != api.CodeTurnFinished {
		t.Errorf("cancel a turn that has ended: %v", err)
	}
	for _, err := range s.ExecuteAgentStream(t.Context(), api.Prompt{Prompt: "read notes.txt"}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if s.Conversation() != conversation || s.SetConversation("") != nil || s.Conversation() != "" {
		t.Errorf("conversation %q, and %q before", s.Conversation(), conversation)
	}
}

// The exported API changes only on purpose.
func TestExportedAPI(t *testing.T) {
	a, err := surface.Load(".")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "testdata/api.txt", a.Text())
	if leaks := a.Leaks(); len(leaks) > 0 {
		t.Errorf("%q", leaks)
	}
}
