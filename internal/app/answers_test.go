package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/s3test"
)

// heard is a webhook that answers with a ticket, and keeps what it was told.
type heard struct {
	*httptest.Server
	mu     sync.Mutex
	prefix string
}

func newHeard(t *testing.T) *heard {
	h := new(heard)
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var told struct {
			Data struct {
				Sandbox struct {
					S3 struct{ Bucket, Prefix string }
				}
			}
		}
		if body, err := io.ReadAll(r.Body); err == nil && json.Unmarshal(body, &told) == nil {
			h.mu.Lock()
			h.prefix = told.Data.Sandbox.S3.Bucket + "/" + told.Data.Sandbox.S3.Prefix
			h.mu.Unlock()
		}
		_, _ = io.WriteString(w, `{"metadata": {"ticket": "T-1"}, "stats": {"score": 0.5}}`)
	}))
	t.Cleanup(h.Close)
	return h
}

// Commands and webhooks answer with metadata and stats; hooks are told under which keys the versions really are;
// hooks of an end run in the template's order, after the last save and before the instance ends.
func TestHooksAnswer(t *testing.T) {
	testkit.Proves(t, "H1", "H4", "H5")
	t.Parallel()
	hooks := newHeard(t)
	server := s3test.Start(t, s3test.Options{})
	bucket := server.Bucket(t)
	env := withConfig(t, onS3(local(t), bucket), `
[templates.talkative]
extends = "demo"
[[templates.talkative.hooks]]
phase = "cold_start"
command = "echo starting; echo '{\"metadata\": {\"node\": \"22\"}, \"stats\": {\"starts\": 1}}'"
[[templates.talkative.hooks]]
phase = "stream_finish"
url = "`+hooks.URL+`"
secret = "`+hookSecret+`"
allow_private = true
[[templates.talkative.hooks]]
name = "farewell-1"
phase = "terminate"
command = "true"
[[templates.talkative.hooks]]
name = "farewell-2"
phase = "terminate"
command = "true"
`)
	env = append(env, "BERTH_OBJECT_STORE="+bucket.URL("team/one"))
	p := start(t, env)
	c := p.client(t)
	conv, _, err := c.Conversations.Create(t.Context(), api.CreateConversation{Template: "talkative"})
	if err != nil {
		t.Fatal(err)
	}
	turn, err := c.Conversations.Prompt(t.Context(), conv.ID, api.Prompt{Prompt: "run echo x > f"})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range turn.Events() {
		if err != nil {
			t.Fatal(err)
		}
	}
	var sandboxID string
	testkit.Eventually(t, time.Minute, func() error {
		conv, err := c.Conversations.Get(t.Context(), conv.ID)
		if err != nil {
			return err
		}
		sandboxID = conv.SandboxID
		sb, err := c.Sandboxes.Get(t.Context(), conv.SandboxID)
		if err != nil || sb.Metadata["node"] != "22" || sb.Metadata["ticket"] != "T-1" || conv.ExtraStats["starts"] != 1 || conv.ExtraStats["score"] != 0.5 {
			return fmt.Errorf("metadata %v, stats %v, %v", sb.Metadata, conv.ExtraStats, err)
		}
		return nil
	})
	if _, err := c.Sandboxes.Terminate(t.Context(), sandboxID); err != nil {
		t.Fatal(err)
	}
	hooks.mu.Lock()
	bucketName, prefix, _ := strings.Cut(hooks.prefix, "/")
	hooks.mu.Unlock()
	if _, err := os.Stat(filepath.Join(server.Dir(bucket), prefix, "HEAD")); bucketName != bucket.Name || !strings.HasPrefix(prefix, "team/one/") || err != nil {
		t.Errorf("the hook was told %q: %v", hooks.prefix, err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		return inOrder(p.logs.String(), `msg="sandbox end"`, "hook=log", "hook=farewell-1", "hook=farewell-2", `msg="sandbox ended"`)
	})
}

// inOrder looks for texts one after the other.
func inOrder(text string, wants ...string) error {
	for _, want := range wants {
		i := strings.Index(text, want)
		if i < 0 {
			return fmt.Errorf("no %s behind what comes before it", want)
		}
		text = text[i:]
	}
	return nil
}
