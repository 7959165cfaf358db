package app_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/app"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/dynamotest"
)

// The message store is away while prompts come and are answered, and the server is killed meanwhile. What was
// accepted is kept and shown as such, is in the store once that is back, and is counted once.
func TestMessagesOutliveAnOutageOfTheirStore(t *testing.T) {
	testkit.Proves(t, "C5", "C6", "C7")
	t.Parallel()
	table := dynamotest.Start(t)
	env := append(local(t), "BERTH_MESSAGE_STORE="+table.Table(t).URL())
	cfg := configured(t, env)
	if _, err := app.Migrate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	p := start(t, env)
	m := &mail{T: t, p: p, sent: map[string]string{}}
	for range 2 {
		conv, _, err := p.client(t).Conversations.Create(t.Context(), api.CreateConversation{Template: "demo"})
		if err != nil {
			t.Fatal(err)
		}
		m.convs = append(m.convs, conv.ID)
		m.post(conv.ID)
	}
	m.settle()
	for range testkit.Size(t, "i9.outages") {
		over := time.After(time.Duration(testkit.Size(t, "i9.seconds")) * time.Second)
		table.Kill()
		for _, id := range m.convs {
			m.post(id)
		}
		m.undelivered(m.convs[0])
		<-over
		if err := m.p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = m.p.cmd.Wait()
		table.Restart(t)
		m.p = start(t, env)
		m.post(m.convs[0])
		m.settle()
	}
	m.check()
	if err := m.p.end(t); err != nil {
		t.Fatal(err)
	}
	found, err := app.Fsck(t.Context(), cfg)
	if err != nil || len(found.Problems) > 0 || found.Conversations != len(m.convs) || found.Messages != 2*int64(len(m.sent)) || found.Undelivered != 0 {
		t.Errorf("fsck: %+v, %v", found, err)
	}
}

// mail is what was posted to a server.
type mail struct {
	*testing.T
	p     *process
	convs []string
	sent  map[string]string // prompts, by the messages that they were accepted as
}

// post posts one prompt, and waits for nothing.
func (m *mail) post(conversation string) {
	m.Helper()
	prompt := fmt.Sprintf("run echo %d \u2028 \"x\"", len(m.sent))
	body, err := json.Marshal(api.Prompt{Prompt: prompt})
	if err != nil {
		m.Fatal(err)
	}
	res := m.do(http.MethodPost, conversation+"/messages?queue=true", body)
	id := res.Header.Get(api.HeaderMessageID)
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusAccepted || id == "" || m.sent[id] != "" {
		m.Fatalf("%s, message %q, %v", res.Status, id, err)
	}
	m.sent[id] = prompt
}

func (m *mail) do(method, path string, body []byte) *http.Response {
	m.Helper()
	req, err := http.NewRequestWithContext(m.Context(), method, m.p.url+"/api/v1/conversations/"+path, bytes.NewReader(body))
	if err != nil {
		m.Fatal(err)
	}
	maps.Copy(req.Header, http.Header{"Authorization": {"Bearer " + testKey}, "Content-Type": {"application/json"}, "Accept": {"application/json"}})
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		m.Fatal(err)
	}
	return res
}

// undelivered waits until the conversation says that messages are kept, and why.
func (m *mail) undelivered(id string) {
	m.Helper()
	testkit.Eventually(m, time.Minute, func() error {
		c, err := m.p.client(m.T).Conversations.Get(m.Context(), id)
		if err == nil && (c.Undelivered == nil || c.Undelivered.Messages == 0 || c.Undelivered.LastError == "") {
			err = fmt.Errorf("nothing says that messages are not delivered: %+v", c.Undelivered)
		}
		return err
	})
}

// settle waits until everything was answered and delivered.
func (m *mail) settle() {
	m.Helper()
	for _, id := range m.convs {
		testkit.Eventually(m, 2*time.Minute, func() error {
			c, err := m.p.client(m.T).Conversations.Get(m.Context(), id)
			if err == nil && (c.Status != "idle" || c.Undelivered != nil) {
				err = fmt.Errorf("conversation %s is %s, undelivered %+v", id, c.Status, c.Undelivered)
			}
			return err
		})
	}
}

// check compares what is stored with what was accepted, and the stats with the sum.
func (m *mail) check() {
	m.Helper()
	c, left := m.p.client(m.T, client.WithAttempts(1)), maps.Clone(m.sent)
	for _, id := range m.convs {
		var sum api.Stats
		for one, err := range c.Conversations.Messages(m.Context(), id) {
			if err != nil {
				m.Fatal(err)
			}
			sum.MessagesExchanged++
			sum.TotalInputTokens += one.Usage.InputTokens
			sum.TotalOutputTokens += one.Usage.OutputTokens
			if one.Role == api.RoleUser && one.Text() != left[one.ID] {
				m.Errorf("%s was accepted with %q and says %q", one.ID, left[one.ID], one.Text())
			}
			delete(left, one.ID)
			m.readBack(id, one)
		}
		if conv, err := c.Conversations.Get(m.Context(), id); err != nil || conv.Stats != sum {
			m.Errorf("the stats are %+v, and the messages add up to %+v; %v", conv.Stats, sum, err)
		}
	}
	if len(left) > 0 {
		m.Errorf("messages were lost: %q", left)
	}
}

// readBack asks for one message by its id.
func (m *mail) readBack(id string, want api.Message) {
	m.Helper()
	var got api.Message
	res := m.do(http.MethodGet, id+"/messages/"+want.ID, nil)
	if err := errors.Join(json.NewDecoder(res.Body).Decode(&got), res.Body.Close()); err != nil || got.Text() != want.Text() || got.Role != want.Role {
		m.Errorf("message %s reads %+v; %v", want.ID, got, err)
	}
}
