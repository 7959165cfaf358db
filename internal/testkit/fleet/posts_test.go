package fleet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fleet"
)

// talkingTemplate is the configuration of a template for sandboxes in which several agents work at once.
const talkingTemplate = `[templates.talking]
extends = "demo"
turns = 8
sync = false
`

// Servers are killed and the database is unreachable for some time while clients post prompts. Every accepted prompt is
// stored exactly once, byte for byte, and answered. The clients of all other prompts get an error. In the end the
// stats of every conversation are the sum over its messages.
func TestNoPostIsLost(t *testing.T) {
	testkit.Proves(t, "C3", "C5", "C7")
	for name, o := range map[string]fleet.Options{
		"postgres": {Replicas: 3, Faulty: true, LeaseTTL: 3 * time.Second, Local: talkingTemplate},
		"sqlite":   {SQLite: true, LeaseTTL: 3 * time.Second, Local: talkingTemplate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPosters(t, fleet.New(t, o), max(o.Replicas, 1))
			p.run()
			p.settle()
			p.check()
			p.fsck(o.SQLite)
		})
	}
}

// posters is a set of clients that post prompts.
type posters struct {
	*testing.T
	f       *fleet.Fleet
	servers int
	via     *http.Client
	c       *client.Client
	convs   []string

	todo chan *post

	mu       sync.Mutex
	sent     map[string]*post // all posts, by prompt
	accepted atomic.Int64
	cut      atomic.Int64 // requests without an answer
	refused  atomic.Int64 // requests answered with 503 and Retry-After
}

// post is one prompt.
type post struct {
	conversation, prompt, key string
	turn, message             string // ids of the prompt's turn and message; empty until it is accepted
}

func newPosters(t *testing.T, f *fleet.Fleet, servers int) *posters {
	p := &posters{T: t, f: f, servers: servers, via: &http.Client{Transport: f.Transport()}, c: f.Any(client.WithAttempts(always)), sent: map[string]*post{}}
	p.todo = make(chan *post, testkit.Size(t, "i9.posts"))
	p.convs = conversations(t, p.c, testkit.Size(t, "i9.conversations"))
	return p
}

// conversations makes conversations that share one sandbox.
func conversations(t *testing.T, c *client.Client, n int) (ids []string) {
	t.Helper()
	first, _, err := c.Conversations.Create(t.Context(), api.CreateConversation{Template: "talking"})
	if err != nil {
		t.Fatal(err)
	}
	box, _, err := c.Conversations.Ensure(t.Context(), first.ID)
	if err != nil {
		t.Fatal(err)
	}
	ids = append(ids, first.ID)
	for range n - 1 {
		next, _, err := c.Conversations.Create(t.Context(), api.CreateConversation{Template: "talking", SandboxID: box.SandboxID})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, next.ID)
	}
	return ids
}

// run posts all prompts while servers are killed and the database is sometimes unreachable.
func (p *posters) run() {
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for one := range p.todo {
				p.post(one)
			}
		})
	}
	p.trouble(testkit.Size(p, "i9.posts"))
	close(p.todo)
	clients.Wait()
	p.Logf("%d posts, %d accepted; %d requests were cut off, %d refused", len(p.sent), p.accepted.Load(), p.cut.Load(), p.refused.Load())
	if p.cut.Load() == 0 || p.f.Database != nil && p.refused.Load() == 0 {
		p.Error("the servers had no trouble at all")
	}
}

// begin gives the clients n more prompts to post.
func (p *posters) begin(n int) {
	for range n {
		p.mu.Lock()
		i := len(p.sent)
		one := &post{conversation: p.convs[i%len(p.convs)], prompt: promptText(i), key: fmt.Sprintf("post-%d", i)}
		p.sent[one.prompt] = one
		p.mu.Unlock()
		p.todo <- one
	}
}

// promptText returns the i-th prompt. Each prompt is unique, has characters that need escaping, and is quick to answer.
func promptText(i int) string {
	text := fmt.Sprintf("run true <<'the end'\n%d: \"quoted\" \\ $HOME `x` \u2028 \u00e4\U0001F6F6\r\n\t", i)
	if i%20 == 0 {
		text += strings.Repeat("a long one ", 5_000)
	}
	return text + "\nthe end"
}

// trouble kills servers and makes the database unreachable while the given number of prompts are posted.
func (p *posters) trouble(posts int) {
	kills, outages := testkit.Size(p, "i9.kills"), testkit.Size(p, "i9.outages")
	if p.f.Database == nil {
		outages = 0
	}
	batch := posts / (kills + outages)
	for n := range kills {
		if outages > 0 && n%(kills/outages) == kills/outages/2 {
			p.outage(batch)
		}
		p.begin(batch)
		<-time.After(time.Duration(rand.IntN(20)) * time.Millisecond)
		i := rand.IntN(p.servers)
		p.f.Kill(i)
		if err := p.f.Start(i); err != nil {
			p.Error(err)
			return
		}
	}
	p.begin(posts - len(p.sent))
}

// outage makes the database unreachable while the given number of prompts are posted, at least until a request is
// refused.
func (p *posters) outage(posts int) {
	before, over := p.refused.Load(), time.After(time.Duration(testkit.Size(p, "i9.seconds"))*time.Second)
	p.begin(posts / 2)
	p.f.Database.Cut()
	p.begin(posts - posts/2)
	testkit.Eventually(p, time.Minute, func() error {
		if p.refused.Load() == before {
			return errors.New("nobody was refused")
		}
		return nil
	})
	<-over
	if err := p.f.Database.Heal(); err != nil {
		p.Error(err)
	}
}

// post sends the prompt until it is accepted. One in six clients gives up when an answer is lost. One in six sends an
// accepted prompt again.
func (p *posters) post(one *post) {
	dice := rand.IntN(6)
	for p.Context().Err() == nil {
		err := p.send(one)
		switch {
		case err == nil && dice > 0, err != nil && dice == 1 && !errors.Is(err, errLater):
			return
		case err == nil:
			dice = 2
		case errors.Is(err, errWrong):
			p.Error(err)
			return
		}
		<-time.After(time.Duration(10+rand.IntN(40)) * time.Millisecond)
	}
}

var (
	errLater = errors.New("it was not accepted yet")
	errWrong = errors.New("the answer is wrong")
)

// send sends the prompt once.
func (p *posters) send(one *post) error {
	body, err := json.Marshal(api.Prompt{Prompt: one.prompt})
	if err != nil {
		return errors.Join(errWrong, err)
	}
	ctx, cancel := context.WithTimeout(p.Context(), 2*time.Minute)
	defer cancel()
	accept := []string{"application/json", "text/event-stream"}[rand.IntN(2)]
	res, err := p.request(ctx, http.MethodPost, one.conversation+"/messages?queue=true", http.Header{"Idempotency-Key": {one.key}, "Accept": {accept}}, body)
	if err != nil {
		p.cut.Add(1)
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusOK || res.StatusCode == http.StatusAccepted {
		return p.recordAccepted(one, res.Header.Get(api.HeaderTurnID), res.Header.Get(api.HeaderMessageID))
	}
	var problem api.Problem
	if err := json.NewDecoder(res.Body).Decode(&problem); err != nil {
		p.cut.Add(1) // the connection broke in the middle of the answer
		return err
	}
	switch {
	case problem.Code == api.CodeQueueFull:
	case res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !problem.Retryable:
		return fmt.Errorf("%w: %s, Retry-After %q, %+v", errWrong, res.Status, res.Header.Get("Retry-After"), problem)
	default:
		p.refused.Add(1)
	}
	return errLater
}

// request sends a request about a conversation to any server.
func (p *posters) request(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://fleet.invalid/api/v1/conversations/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Authorization", "Bearer "+fleet.Key)
	req.Header.Set("Content-Type", "application/json")
	return p.via.Do(req)
}

// recordAccepted records the ids of an accepted prompt. It fails if an earlier answer had other ids.
func (p *posters) recordAccepted(one *post, turn, message string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.turn == "" {
		p.accepted.Add(1)
		one.turn, one.message = turn, message
	}
	if turn == "" || message == "" || turn != one.turn || message != one.message {
		return fmt.Errorf("%w: %s is message %q of turn %q, and was %q of %q", errWrong, one.key, message, turn, one.message, one.turn)
	}
	return nil
}

// settle waits until all conversations are idle and nothing is undelivered.
func (p *posters) settle() {
	for _, id := range p.convs {
		testkit.Eventually(p, 10*time.Minute, func() error {
			c, err := p.c.Conversations.Get(p.Context(), id)
			if err == nil && (c.Status != "idle" || c.Undelivered != nil) {
				err = fmt.Errorf("conversation %s is %s, turn %s, undelivered %+v", id, c.Status, c.TurnID, c.Undelivered)
			}
			return err
		})
	}
}

// check compares the stored messages with the accepted prompts.
func (p *posters) check() {
	all := api.Stats{}
	for _, id := range p.convs {
		sum, asked, answered := api.Stats{}, map[string]bool{}, map[string]bool{}
		for m, err := range p.c.Conversations.Messages(p.Context(), id) {
			if err != nil {
				p.Fatal(err)
			}
			sum, all = plus(sum, m), plus(all, m)
			if m.Role == api.RoleUser {
				p.checkPrompt(m)
				asked[m.TurnID] = true
			} else if answered[m.TurnID] || m.Status != api.TurnCompleted {
				p.Errorf("turn %s has two answers, or none: %+v", m.TurnID, m)
			} else {
				answered[m.TurnID] = true
			}
		}
		if len(asked) != len(answered) {
			p.Errorf("conversation %s has %d prompts and %d answers", id, len(asked), len(answered))
		}
		c, err := p.c.Conversations.Get(p.Context(), id)
		if err != nil || c.Stats != sum {
			p.Errorf("the stats of %s are %+v, and its messages add up to %+v; %v", id, c.Stats, sum, err)
		}
	}
	for _, one := range p.sent {
		p.readBack(one)
	}
	report, err := p.c.Usage(p.Context(), client.UsageFilter{})
	if u := report.Total; err != nil || u.Messages != all.MessagesExchanged || u.Usage.InputTokens != all.TotalInputTokens || u.Usage.OutputTokens != all.TotalOutputTokens {
		p.Errorf("the usage is %+v, and the messages add up to %+v; %v", u, all, err)
	}
}

// checkPrompt compares a user's message with the prompt of the same text. It fails if there is no such prompt, or if the
// prompt has another message already.
func (p *posters) checkPrompt(m api.Message) {
	one := p.sent[m.Text()]
	switch {
	case one == nil:
		p.Errorf("nobody said %q", m.Text())
	case one.message == "": // accepted, but the answer was lost
		one.turn, one.message = m.TurnID, m.ID
	case one.message != m.ID || one.turn != m.TurnID:
		p.Errorf("%s is message %s of turn %s and %s of %s", one.key, one.message, one.turn, m.ID, m.TurnID)
	}
}

// readBack reads the message of an accepted prompt by its id and compares the text.
func (p *posters) readBack(one *post) {
	if one.message == "" {
		return
	}
	var m api.Message
	res, err := p.request(p.Context(), http.MethodGet, one.conversation+"/messages/"+one.message, nil, nil)
	if err == nil {
		err = errors.Join(json.NewDecoder(res.Body).Decode(&m), res.Body.Close())
	}
	if err != nil || m.Text() != one.prompt || m.TurnID != one.turn || len(m.Content) != 1 {
		p.Errorf("%s was accepted as %s and reads %+v; %v", one.key, one.message, m, err)
	}
}

func plus(s api.Stats, m api.Message) api.Stats {
	s.MessagesExchanged++
	s.TotalInputTokens += m.Usage.InputTokens
	s.TotalOutputTokens += m.Usage.OutputTokens
	s.TotalCacheReadTokens += m.Usage.CacheReadTokens
	s.TotalCacheWriteTokens += m.Usage.CacheWriteTokens
	s.TotalCacheTokens += m.Usage.CacheReadTokens + m.Usage.CacheWriteTokens
	return s
}

// fsck runs berth fsck. If alone is true, it first stops the server, because SQLite allows only one.
func (p *posters) fsck(alone bool) {
	if alone {
		if err := p.f.Stop(0); err != nil {
			p.Error(err)
		}
	}
	found, err := p.f.Fsck()
	if err != nil || len(found.Problems) > 0 || found.Conversations != len(p.convs) || found.Undelivered != 0 {
		p.Errorf("berth fsck: %+v, %v", found, err)
	}
}
