// Package slacktest is a Slack for tests. It speaks the protocol of the real one: the Web API with form and JSON
// bodies, Socket Mode, the Events API with signatures and retries, uploads, downloads with a token, streamed messages,
// interactive payloads and rate limits.
//
// [New] starts a server, [Server.AddTeam] makes a workspace in which an app is installed. Tests act as people with
// [Team.Say], [Team.Edit], [Team.Delete] and [Team.Click], read what the app posted with [Team.Thread], and disturb the
// app with [Team.Fail], [Team.Replay] and [Team.Refresh].
//
// The server removes no duplicates: a post that is repeated is there twice, as in the real Slack.
package slacktest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

type obj = map[string]any

// Server is a Slack with any number of workspaces.
type Server struct {
	URL string // the origin; APIURL has the path of the Web API

	// AckTime is the time that an app has to acknowledge an event before it is sent again.
	AckTime time.Duration
	// Retries are the pauses before an event is sent again. After the last one it is given up.
	Retries []time.Duration

	ctx  context.Context
	work sync.WaitGroup

	mu    sync.Mutex
	teams map[string]*Team
	next  int
	last  int64 // the last timestamp of a message, in microseconds
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		AckTime: 3 * time.Second, Retries: slices.Repeat([]time.Duration{time.Second}, 90),
		ctx: ctx, teams: map[string]*Team{},
	}
	web := httptest.NewUnstartedServer(s.handler())
	web.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	web.Start()
	s.URL = web.URL
	t.Cleanup(func() {
		cancel()
		web.CloseClientConnections()
		web.Close()
		s.work.Wait()
	})
	return s
}

// APIURL is the address of the Web API, for clients that can be given one.
func (s *Server) APIURL() string { return s.URL + "/api/" }

// id returns a new identifier with a prefix. The lock must be held.
func (s *Server) id(prefix string) string {
	s.next++
	return fmt.Sprintf("%s%08d", prefix, s.next)
}

// ts returns the timestamp of a new message, which no other message has. The lock must be held.
func (s *Server) ts() string {
	s.last = max(s.last+1, time.Now().UnixMicro())
	return fmt.Sprintf("%d.%06d", s.last/1e6, s.last%1e6)
}

// Team is a workspace in which one app is installed.
type Team struct {
	ID, Name      string
	AppID         string
	BotUser       string // the app's user
	BotID         string
	BotToken      string
	AppToken      string // for Socket Mode
	SigningSecret string

	server *Server

	// Guarded by the server's lock.
	requestURL     string // of the Events API; empty: Socket Mode
	interactiveURL string
	scopes         []string
	users          map[string]User
	channels       map[string]*channel
	files          map[string]*File
	sockets        []*socket
	tickets        map[string]bool
	faults         []*Fault
	calls          []Call
	envelopes      []*envelope
	ephemeral      []Message
	revoked        bool
	streamless     bool
}

// User is a person in a workspace.
type User struct {
	ID, Name, Email string
	Bot             bool
}

// channel is a channel or a direct conversation.
type channel struct {
	id       string
	im       string // the person of a direct conversation
	archived bool
	members  map[string]bool
	messages []*Message
}

// Message is a message as the workspace shows it.
type Message struct {
	TS, ThreadTS string
	Channel      string
	User, BotID  string
	Text         string
	Blocks       json.RawMessage
	Metadata     json.RawMessage
	Files        []string // the ids
	Reactions    map[string][]string
	Streaming    bool
	Tasks        map[string]Task
	Edits        []time.Time
	Subtype      string
}

// Task is a task of a streamed message.
type Task struct{ Title, Status, Details string }

// Call is a call of the Web API.
type Call struct {
	Method string
	Args   map[string]string
	Error  string // of the answer; empty: ok
	At     time.Time
}

// Scopes are what the app may do in a new workspace.
var Scopes = []string{
	"app_mentions:read", "channels:history", "channels:read", "chat:write", "files:read", "files:write", "groups:history", "groups:read",
	"im:history", "im:read", "im:write", "mpim:history", "mpim:read", "reactions:read", "reactions:write", "users:read", "users:read.email", "assistant:write",
}

// AddTeam makes a workspace.
func (s *Server) AddTeam(id string) *Team {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &Team{
		ID: id, Name: "Team " + id, AppID: "A" + id, BotUser: "UBOT" + id, BotID: "B" + id,
		BotToken: "xoxb-" + id + "-bot", AppToken: "xapp-1-" + id + "-app", SigningSecret: "signing-" + id,
		server: s, users: map[string]User{}, channels: map[string]*channel{}, files: map[string]*File{}, tickets: map[string]bool{}, scopes: slices.Clone(Scopes),
	}
	t.users[t.BotUser] = User{ID: t.BotUser, Name: "berth", Bot: true}
	s.teams[id] = t
	return t
}

// AddUser makes a person.
func (t *Team) AddUser(id, name, email string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.users[id] = User{ID: id, Name: name, Email: email}
}

// AddChannel makes a channel with the app and some people in it.
func (t *Team) AddChannel(id string, members ...string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	c := &channel{id: id, members: map[string]bool{t.BotUser: true}}
	for _, m := range members {
		c.members[m] = true
	}
	t.channels[id] = c
}

// DM returns the direct conversation of the app with a person.
func (t *Team) DM(user string) string {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	return t.dm(user).id
}

func (t *Team) dm(user string) *channel {
	id := "D" + strings.TrimPrefix(user, "U")
	if t.channels[id] == nil {
		t.channels[id] = &channel{id: id, im: user, members: map[string]bool{user: true, t.BotUser: true}}
	}
	return t.channels[id]
}

// SetScopes changes what the app may do.
func (t *Team) SetScopes(scopes ...string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.scopes = scopes
}

// Archive archives a channel.
func (t *Team) Archive(channel string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.channels[channel].archived = true
}

// Uninstall ends the app's tokens and says so in an event.
func (t *Team) Uninstall() {
	t.Event(obj{"type": "app_uninstalled"})
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.revoked = true
}

// RemoveBot removes the app from a channel.
func (t *Team) RemoveBot(id string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	delete(t.channels[id].members, t.BotUser)
	t.emit(obj{"type": "channel_left", "channel": id, "actor_id": "UADMIN", "event_ts": t.server.ts()})
}

// Messages returns all messages of a channel in their order.
func (t *Team) Messages(channel string) []Message {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	var all []Message
	if c := t.channels[channel]; c != nil {
		for _, m := range c.messages {
			all = append(all, m.clone())
		}
	}
	return all
}

// Thread returns the messages of a thread, its first message included.
func (t *Team) Thread(channel, ts string) []Message {
	all := t.Messages(channel)
	return slices.DeleteFunc(all, func(m Message) bool { return m.TS != ts && m.ThreadTS != ts })
}

// Ephemeral returns the messages that only one person saw.
func (t *Team) Ephemeral() []Message {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	return slices.Clone(t.ephemeral)
}

// Calls returns the calls of a method, or of all methods.
func (t *Team) Calls(method string) []Call {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	all := slices.Clone(t.calls)
	return slices.DeleteFunc(all, func(c Call) bool { return method != "" && c.Method != method })
}

// RefuseStreams makes the workspace answer calls of streams as one that does not know them, or no longer so.
func (t *Team) RefuseStreams(refuse bool) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.streamless = refuse
}

// ExpireStreams ends all streamed messages, as Slack does when nothing was appended for a while.
func (t *Team) ExpireStreams() {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	for _, c := range t.channels {
		for _, m := range c.messages {
			m.Streaming = false
		}
	}
}

func (m *Message) clone() Message {
	c := *m
	c.Files, c.Edits, c.Tasks = slices.Clone(m.Files), slices.Clone(m.Edits), maps.Clone(m.Tasks)
	c.Reactions = map[string][]string{}
	for name, users := range m.Reactions {
		c.Reactions[name] = slices.Clone(users)
	}
	return c
}

// find returns a message. The lock must be held.
func (c *channel) find(ts string) *Message {
	for _, m := range c.messages {
		if m.TS == ts {
			return m
		}
	}
	return nil
}

// Fault disturbs calls of the Web API. The zero values of its conditions match every call.
type Fault struct {
	Method string
	Times  int // how many calls; zero: one

	Error      string        // the call is refused with this error
	Status     int           // the answer has this status and no JSON
	RetryAfter int           // the call is refused with 429 and this number of seconds
	Lost       bool          // the call is done and the connection breaks without an answer
	Delay      time.Duration // the call waits before it is done
}

// Fail disturbs the next calls.
func (t *Team) Fail(f Fault) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	f.Times = max(f.Times, 1)
	t.faults = append(t.faults, &f)
}

// takeFault returns the fault for a call, if there is one.
func (t *Team) takeFault(method string) Fault {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	for _, f := range t.faults {
		if f.Times > 0 && (f.Method == "" || f.Method == method) {
			f.Times--
			return *f
		}
	}
	return Fault{}
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/{method}", s.serveMethod)
	mux.HandleFunc("GET /api/{method}", s.serveMethod)
	mux.HandleFunc("POST /upload/v1/{team}/{file}", s.serveUpload)
	mux.HandleFunc("GET /files-pri/{file}/{name}", s.serveDownload)
	mux.HandleFunc("GET /link", s.serveSocket)
	return mux
}
