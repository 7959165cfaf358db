package dynamo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/dynamotest"
	"github.com/berthdev/berth/internal/testkit/s3test"
	"github.com/berthdev/berth/internal/transcript"
)

const acme = "acme"

// saying is a message; with small, one of more than a thousand bytes is in parts.
func saying(conversation, text string) api.Message {
	return api.Message{
		ID: store.NewID(), ConversationID: conversation, Role: api.RoleUser, Status: api.TurnCompleted,
		Content: []api.Block{{Type: api.BlockText, Text: text}}, CreatedAt: time.Unix(1_700_000_000, 0).UTC(),
	}
}

func small(s *Store) *Store {
	s.limits.whole, s.limits.part = 1000, 1000
	return s
}

var long = strings.Repeat("word ", 900) // five parts

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func has(t *testing.T, s *Store, want api.Message) {
	t.Helper()
	got, err := s.Get(patient(t), acme, want.ConversationID, want.ID)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("message %s is %.200v, not %.200v: %v", want.ID, got, want, err)
	}
}

func hasNot(t *testing.T, s *Store, m api.Message) {
	t.Helper()
	if got, err := s.Get(patient(t), acme, m.ConversationID, m.ID); fault.CodeOf(err) != api.CodeNotFound {
		t.Fatalf("message %s: %.200v, %v", m.ID, got, err)
	}
	if all, _, err := s.List(patient(t), acme, m.ConversationID, transcript.Page{}); err != nil || len(all) != 0 {
		t.Fatalf("the conversation has %d messages, %v", len(all), err)
	}
}

func put(t *testing.T, s *Store, m api.Message) {
	t.Helper()
	if err := s.Put(patient(t), acme, m); err != nil {
		t.Fatal(err)
	}
}

// halves is how many heads in the table lack parts.
func halves(t *testing.T, s *Store) (n int) {
	t.Helper()
	out, err := s.client.Scan(patient(t), &dynamodb.ScanInput{TableName: &s.Table})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range out.Items {
		if !isHead(it) {
			continue
		}
		h := readHead(it)
		if found, err := s.countParts(patient(t), h); err != nil || found != h.parts {
			n++
		}
	}
	return n
}

// refusing passes on so many requests of one operation, and refuses the others for good: as far as the table
// can tell, whoever sent them died.
func refusing(op string, after int32) func(string) dynamotest.Fate {
	var seen atomic.Int32
	return func(this string) dynamotest.Fate {
		if this == op && seen.Add(1) > after {
			return dynamotest.Fate{Status: 400, Code: "AccessDeniedException"}
		}
		return dynamotest.Fate{}
	}
}

func TestCrashShowsNoHalfMessage(t *testing.T) {
	testkit.Proves(t, "C6")
	b := dynamotest.New(t)
	direct := small(made(t, b))
	proxy, behind := dynamotest.Before(t, b)
	dying := small(open(t, behind))
	m := saying(store.NewID(), long)
	_, parts := direct.items("pk", m.ID, long)
	for after := range int32(len(parts)) + 1 {
		m.ID = store.NewID()
		proxy.Set(refusing("PutItem", after))
		if err := dying.Put(patient(t), acme, m); err == nil {
			t.Fatalf("it was put with %d requests", after)
		}
		if n := halves(t, direct); n != 0 {
			t.Fatalf("after %d requests %d messages are there in part", after, n)
		}
		hasNot(t, direct, m)
		put(t, direct, m)
		has(t, direct, m)
		if err := direct.Forget(patient(t), acme, m.ConversationID); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForgottenWhileItIsPut has a conversation forgotten between a message's parts and its head.
func TestForgottenWhileItIsPut(t *testing.T) {
	b := dynamotest.New(t)
	direct := small(made(t, b))
	proxy, behind := dynamotest.Before(t, b)
	slow := small(open(t, behind))
	m := saying(store.NewID(), long)
	_, parts := direct.items("pk", m.ID, long)
	var seen atomic.Int32
	proxy.Set(func(op string) dynamotest.Fate {
		if op == "PutItem" && int(seen.Add(1)) == len(parts)+1 {
			if err := direct.Forget(patient(t), acme, m.ConversationID); err != nil {
				t.Error(err)
			}
		}
		return dynamotest.Fate{}
	})
	put(t, slow, m)
	if halves(t, direct) != 1 {
		t.Fatal("the window was not hit")
	}
	hasNot(t, direct, m)
	put(t, direct, m)
	has(t, direct, m)

	other := m
	other.Content = []api.Block{{Type: api.BlockText, Text: "short"}}
	seen.Store(0)
	if err := direct.Forget(patient(t), acme, m.ConversationID); err != nil {
		t.Fatal(err)
	}
	put(t, slow, m)
	put(t, direct, other)
	has(t, direct, other)
}

// TestForgottenAgainAndAgain has whatever is put forgotten: a put says so at last.
func TestForgottenAgainAndAgain(t *testing.T) {
	b := dynamotest.New(t)
	direct := small(made(t, b))
	proxy, behind := dynamotest.Before(t, b)
	m := saying(store.NewID(), long)
	h := head{pk: partition(acme, m.ConversationID), id: m.ID, parts: 9, sum: "x"}
	proxy.Set(func(op string) dynamotest.Fate {
		if op == "GetItem" { // a head without parts stands in the way whenever one looks
			h.nonce += "x"
			if _, err := direct.client.PutItem(patient(t), &dynamodb.PutItemInput{TableName: &direct.Table, Item: h.item()}); err != nil {
				t.Error(err)
			}
		}
		return dynamotest.Fate{}
	})
	if err := small(open(t, behind)).Put(patient(t), acme, m); fault.CodeOf(err) != api.CodeStale {
		t.Errorf("%v", err)
	}
	// Somebody else replaces it while it is looked at: it stays.
	proxy.Set(func(op string) dynamotest.Fate {
		if op == "DeleteItem" {
			body, err := transcript.Encode(m)
			it, parts := direct.items(h.pk, m.ID, body)
			for _, it := range append(parts, it) {
				_, failed := direct.client.PutItem(patient(t), &dynamodb.PutItemInput{TableName: &direct.Table, Item: it})
				err = errors.Join(err, failed)
			}
			if err != nil {
				t.Error(err)
			}
		}
		return dynamotest.Fate{}
	})
	if _, err := direct.client.PutItem(patient(t), &dynamodb.PutItemInput{TableName: &direct.Table, Item: h.item()}); err != nil {
		t.Fatal(err)
	}
	other := m
	other.Content = []api.Block{{Type: api.BlockText, Text: "too late " + long}}
	put(t, small(open(t, behind)), other)
	has(t, direct, m)
}

func TestAnswersThatAreLost(t *testing.T) {
	b := dynamotest.New(t)
	made(t, b)
	proxy, behind := dynamotest.Before(t, b)
	s := small(open(t, behind))
	for _, text := range []string{"short", long} {
		var calls atomic.Int32
		proxy.Set(func(string) dynamotest.Fate { return dynamotest.Fate{Lost: calls.Add(1)%2 == 1} })
		m := saying(store.NewID(), text)
		put(t, s, m)
		has(t, s, m)
		if err := s.Forget(patient(t), acme, m.ConversationID); err != nil {
			t.Fatal(err)
		}
		hasNot(t, s, m)
	}
}

func TestOutage(t *testing.T) {
	testkit.Proves(t, "C6")
	server := dynamotest.Start(t)
	s := made(t, server.Table(t))
	conversation := store.NewID()
	before, during := saying(conversation, "before"), saying(conversation, "during")
	put(t, s, before)
	server.Kill()

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var e *fault.Error
	if err := s.Put(ctx, acme, during); !errors.As(err, &e) || e.Code != api.CodeMessageStore || !e.Retry || !strings.Contains(err.Error(), "connection refused") {
		t.Fatalf("while the server is away: %v", err)
	}
	s.limits.patience = 300 * time.Millisecond
	for what, err := range map[string]error{
		"put": s.Put(t.Context(), acme, during), "check": s.Check(t.Context()), "forget": s.Forget(t.Context(), acme, conversation),
	} {
		if !errors.As(err, &e) || e.Code != api.CodeMessageStore || !e.Retry {
			t.Fatalf("%s, without a deadline: %v", what, err)
		}
	}
	for _, err := range transcript.All(t.Context(), s, acme, conversation) {
		if !errors.As(err, &e) || e.Code != api.CodeMessageStore {
			t.Fatalf("list: %v", err)
		}
	}
	s.limits.patience = time.Minute
	waiting := make(chan error)
	go func() { waiting <- s.Put(patient(t), acme, during) }()
	server.Restart(t)
	if err := <-waiting; err != nil {
		t.Fatalf("a put that waited: %v", err)
	}
	put(t, s, during)
	has(t, s, before)
	has(t, s, during)
}

func TestThrottling(t *testing.T) {
	b := dynamotest.New(t)
	made(t, b)
	proxy, behind := dynamotest.Before(t, b)
	s := small(open(t, behind))
	var calls atomic.Int32
	proxy.Set(func(string) dynamotest.Fate {
		switch calls.Add(1) % 4 {
		case 1:
			return dynamotest.Fate{Status: 400, Code: "ProvisionedThroughputExceededException"}
		case 2:
			return dynamotest.Fate{Status: 500, Code: "InternalServerError"}
		case 3:
			return dynamotest.Fate{Status: 503}
		}
		return dynamotest.Fate{}
	})
	m := saying(store.NewID(), long)
	put(t, s, m)
	has(t, s, m)

	// Of what is to be deleted a part may be left for later.
	var batches atomic.Int32
	proxy.Set(func(op string) dynamotest.Fate {
		if op == "BatchWriteItem" && batches.Add(1)%2 == 1 {
			key, err := json.Marshal(map[string]any{"pk": map[string]string{"S": partition(acme, m.ConversationID)}, "sk": map[string]string{"S": headPrefix + m.ID}})
			if err != nil {
				t.Error(err)
			}
			return dynamotest.Fate{Status: 200, Body: fmt.Sprintf(`{"UnprocessedItems":{%q:[{"DeleteRequest":{"Key":%s}}]}}`, s.Table, key)}
		}
		return dynamotest.Fate{}
	})
	if err := s.Forget(patient(t), acme, m.ConversationID); err != nil {
		t.Fatal(err)
	}
	hasNot(t, s, m)

	put(t, s, m)
	proxy.Set(func(op string) dynamotest.Fate {
		if op != "BatchWriteItem" {
			return dynamotest.Fate{}
		}
		return dynamotest.Fate{Status: 200, Body: fmt.Sprintf(`{"UnprocessedItems":{%q:[{"DeleteRequest":{"Key":{"pk":{"S":"x"},"sk":{"S":"x"}}}}]}}`, s.Table)}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Forget(ctx, acme, m.ConversationID); fault.CodeOf(err) != api.CodeMessageStore {
		t.Errorf("always left for later: %v", err)
	}
}

// TestStorm puts messages over a bad network, each again until it is said to be stored.
func TestStorm(t *testing.T) {
	b := dynamotest.New(t)
	direct := small(made(t, b))
	proxy := s3test.Proxy(t, b.Endpoint)
	bad := b
	bad.Endpoint = proxy.Endpoint
	s := small(open(t, bad))
	s.limits.patience = 5 * time.Second
	proxy.Set(s3test.Faults{Error: 0.1, Deaf: 0.05, Lost: 0.1, Disowned: 0.1, Truncated: 0.05, Slow: 0.05, Delay: 5 * time.Millisecond})
	conversation := store.NewID()
	want := map[string]api.Message{}
	for i := range testkit.Size(t, "transcript.storm") {
		m := saying(conversation, fmt.Sprint(i, " ", strings.Repeat("word ", i%7*150)))
		want[m.ID] = m
		testkit.Eventually(t, time.Minute, func() error { return s.Put(t.Context(), acme, m) })
		other := m
		other.Content = []api.Block{{Type: api.BlockText, Text: "later " + long}}
		_ = s.Put(t.Context(), acme, other)
		if got, err := s.Get(t.Context(), acme, conversation, m.ID); err == nil && !reflect.DeepEqual(got, m) {
			t.Fatalf("read %.200v, not %.200v", got, m)
		}
	}
	for m, err := range transcript.All(patient(t), direct, acme, conversation) {
		if err != nil || !reflect.DeepEqual(m, want[m.ID]) {
			t.Fatalf("%.200v, not %.200v: %v", m, want[m.ID], err)
		}
		delete(want, m.ID)
	}
	if len(want) != 0 || halves(t, direct) != 0 {
		t.Errorf("%d messages are missing", len(want))
	}
	if hits, total := proxy.Hits(); len(hits) < 4 {
		t.Errorf("only %v of %d requests were spoilt", hits, total)
	}
}

// A server that hangs, and a gateway that answers in DynamoDB's place, are reported as a message store that does
// not answer. In particular, a put that such a gateway answers with 200 is not done.
func TestAnswersThatAreNotDynamoDBs(t *testing.T) {
	proxy, b := dynamotest.Before(t, dynamotest.New(t))
	s := made(t, b)
	s.limits.patience = time.Second
	for says, fate := range map[string]dynamotest.Fate{
		"no answer in time":      {Hang: true},
		"not DynamoDB's":         {Status: 200, Type: "text/html"},
		"content type is \"text": {Status: 200, Type: "text/html", Body: "<html>welcome</html>"},
		"deserialization":        {Status: 200, Body: "<html>welcome</html>"},
	} {
		proxy.Set(func(string) dynamotest.Fate { return fate })
		m := saying(store.NewID(), "hello")
		_, get := s.Get(t.Context(), acme, m.ConversationID, m.ID)
		_, _, list := s.List(t.Context(), acme, m.ConversationID, transcript.Page{})
		for what, err := range map[string]error{"put": s.Put(t.Context(), acme, m), "get": get, "list": list, "check": s.Check(t.Context())} {
			var e *fault.Error
			if !errors.As(err, &e) || e.Code != api.CodeMessageStore || !e.Retry || e.Hint == "" || !strings.Contains(err.Error(), says) {
				t.Errorf("%s, %s: %v", says, what, err)
			}
		}
		proxy.Set(nil)
		hasNot(t, open(t, b), m)
	}
}
