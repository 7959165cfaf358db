package dynamo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit/dynamotest"
	"github.com/berthdev/berth/internal/transcript"
)

func TestTable(t *testing.T) {
	b := dynamotest.New(t)
	s := open(t, b)
	err := s.Check(t.Context())
	var e *fault.Error
	if !errors.As(err, &e) || e.Retry || !strings.Contains(e.Hint, "berth migrate") || !strings.Contains(err.Error(), b.Name) {
		t.Errorf("without a table: %v, %+v", err, e)
	}
	if _, err := s.Get(t.Context(), acme, "c", "m"); fault.CodeOf(err) != api.CodeMessageStore {
		t.Errorf("a message of a table that is missing: %v", err)
	}
	for _, first := range []bool{true, false} {
		if made, err := s.CreateTable(t.Context()); made != first || err != nil {
			t.Errorf("made %v, %v", made, err)
		}
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	table, err := s.client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &b.Name})
	if err != nil || table.Table.BillingModeSummary.BillingMode != types.BillingModePayPerRequest {
		t.Errorf("%+v, %v", table, err)
	}
}

func TestTableThatTakesAMoment(t *testing.T) {
	proxy, b := dynamotest.Before(t, dynamotest.New(t))
	var asked atomic.Int32
	proxy.Set(func(op string) dynamotest.Fate {
		if op != "DescribeTable" {
			return dynamotest.Fate{}
		}
		switch asked.Add(1) {
		case 1:
			return dynamotest.Fate{Status: 400, Code: "ResourceNotFoundException"}
		case 2:
			return dynamotest.Fate{Status: 200, Body: `{"Table":{"TableStatus":"CREATING"}}`}
		}
		return dynamotest.Fate{}
	})
	made(t, b)
	if asked.Load() < 3 {
		t.Errorf("took the table as ready after it was asked %d times", asked.Load())
	}
	proxy.Set(refusing("DescribeTable", 0))
	if _, err := open(t, b).CreateTable(t.Context()); err == nil || !strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("a table that may not be looked at: %v", err)
	}
	proxy.Set(refusing("CreateTable", 0))
	if _, err := open(t, b).CreateTable(t.Context()); err == nil || !strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("a table that may not be made: %v", err)
	}
}

func TestTableOfSomebodyElse(t *testing.T) {
	b := dynamotest.New(t)
	_, err := b.Client().CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &b.Name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeN}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, b)
	if _, err := s.CreateTable(t.Context()); fault.CodeOf(err) != api.CodeInvalidConfig || !strings.Contains(err.Error(), "other keys") {
		t.Errorf("it was taken: %v", err)
	}
	var e *fault.Error
	if err := s.Check(t.Context()); !errors.As(err, &e) || e.Retry || !strings.Contains(e.Hint, "other keys") {
		t.Errorf("it can be used: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	proxy, b := dynamotest.Before(t, dynamotest.New(t))
	s := made(t, b)
	for code, c := range map[string]struct {
		hint  string
		retry bool
	}{
		"UnrecognizedClientException": {"AWS_ACCESS_KEY_ID", false},
		"AccessDeniedException":       {"Allow the server's credentials", false},
		"ResourceNotFoundException":   {"berth migrate", false},
		"SomethingElseException":      {"message_store", true},
	} {
		proxy.Set(func(string) dynamotest.Fate { return dynamotest.Fate{Status: 400, Code: code} })
		m := saying("c", "x")
		_, get := s.Get(t.Context(), acme, "c", m.ID)
		_, _, list := s.List(t.Context(), acme, "c", transcript.Page{})
		for what, err := range map[string]error{
			"put": s.Put(t.Context(), acme, m), "check": s.Check(t.Context()), "forget": s.Forget(t.Context(), acme, "c"), "get": get, "list": list,
			"put of a long one": small(open(t, b)).Put(t.Context(), acme, saying("c", long)),
		} {
			var e *fault.Error
			if !errors.As(err, &e) || e.Code != api.CodeMessageStore || e.Retry != c.retry || !strings.Contains(e.Hint, c.hint) || !strings.Contains(err.Error(), code) {
				t.Errorf("%s, %s: %v, %+v", code, what, err, e)
			}
		}
	}
	proxy.Set(func(string) dynamotest.Fate { return dynamotest.Fate{Status: 400, Code: "ThrottlingException"} })
	s.limits.patience = s.limits.pause * 100
	var e *fault.Error
	if err := s.Check(t.Context()); !errors.As(err, &e) || !e.Retry || !strings.Contains(e.Hint, "fewer requests") {
		t.Errorf("throttled for too long: %v", err)
	}
}

// TestPartOfAPut is about failures between the requests of one call.
func TestPartOfAPut(t *testing.T) {
	b := dynamotest.New(t)
	direct := small(made(t, b))
	proxy, behind := dynamotest.Before(t, b)
	s := small(open(t, behind))
	m := saying(store.NewID(), long)
	put(t, direct, m)
	for _, op := range []string{"GetItem", "Query"} {
		proxy.Set(refusing(op, 0))
		if err := s.Put(t.Context(), acme, m); err == nil {
			t.Errorf("%s: it was put", op)
		}
		if _, err := s.Get(t.Context(), acme, m.ConversationID, m.ID); fault.CodeOf(err) != api.CodeMessageStore {
			t.Errorf("%s: %v", op, err)
		}
	}
	proxy.Set(refusing("Query", 1))
	if _, _, err := s.List(t.Context(), acme, m.ConversationID, transcript.Page{}); fault.CodeOf(err) != api.CodeMessageStore {
		t.Errorf("a list without its parts: %v", err)
	}
	proxy.Set(refusing("BatchWriteItem", 0))
	if err := s.Forget(t.Context(), acme, m.ConversationID); fault.CodeOf(err) != api.CodeMessageStore {
		t.Errorf("a refused delete: %v", err)
	}
	has(t, direct, m)
}

func TestDamage(t *testing.T) {
	s := small(made(t, dynamotest.New(t)))
	m := saying(store.NewID(), "short")
	put(t, s, m)
	pk := partition(acme, m.ConversationID)
	write := func(it item) {
		t.Helper()
		if _, err := s.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &s.Table, Item: it}); err != nil {
			t.Fatal(err)
		}
	}
	spoilt, _ := s.items(pk, m.ID, "{}")
	spoilt["body"] = str("[]")
	foreign := keyOf(pk, headPrefix+m.ID)
	foreign["parts"] = &types.AttributeValueMemberS{Value: "x"}
	for name, it := range map[string]item{"spoilt": spoilt, "foreign": foreign} {
		write(it)
		_, err := s.Get(t.Context(), acme, m.ConversationID, m.ID)
		_, _, listed := s.List(t.Context(), acme, m.ConversationID, transcript.Page{})
		for _, err := range []error{err, listed} {
			if fault.CodeOf(err) != api.CodeInternal || !strings.Contains(err.Error(), "not what was put") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestAddresses(t *testing.T) {
	for address, want := range map[string]Options{
		"dynamodb://berth.messages-1": {Table: "berth.messages-1"},
		"dynamodb://messages/?endpoint=http://127.0.0.1:8000/&region=eu-west-1&profile=work": {
			Table: "messages", Endpoint: "http://127.0.0.1:8000", Region: "eu-west-1", Profile: "work"},
	} {
		o, err := Parse(address)
		if o != want || err != nil {
			t.Errorf("%s is %+v, %v", address, o, err)
		}
		if again, err := Parse(o.String()); again.Table != o.Table || again.Endpoint != o.Endpoint || err != nil {
			t.Errorf("%s is read as %+v, %v", o, again, err)
		}
	}
	for _, address := range []string{
		"", "messages", "s3://messages", "dynamodb://", "dynamodb://ab", "dynamodb://a b c", "dynamodb://messages/more", "dynamodb://key:secret@messages",
		"dynamodb://messages?x=1", "dynamodb://messages?region=a%20b", "dynamodb://messages?endpoint=ftp://x", "dynamodb://messages?endpoint=http://key:secret@x",
		"dynamodb://messages?endpoint=http://x/path", "dynamodb://messages#x", "dynamodb://messages?%zz", "dynamodb://%zz:secret@x", "dynamodb:messages",
	} {
		if o, err := Parse(address); fault.CodeOf(err) != api.CodeInvalidConfig || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q is %+v, %v", address, o, err)
		}
	}
}

func TestCredentials(t *testing.T) {
	dynamotest.Setenv(t)
	b := dynamotest.New(t)
	if s, err := Open(t.Context(), Options{Table: b.Name, Endpoint: b.Endpoint}); err != nil || s.client.Options().Region != "us-east-1" {
		t.Errorf("with an endpoint: %v", err)
	}
	if _, err := Open(t.Context(), Options{}); fault.CodeOf(err) != api.CodeInvalidConfig {
		t.Errorf("no table: %v", err)
	}
	for want, o := range map[string]Options{
		"region is not known":        {Table: "messages"},
		"read the AWS configuration": {Table: "messages", Region: "us-east-1", Profile: "none"},
	} {
		if _, err := Open(t.Context(), o); fault.CodeOf(err) != api.CodeInvalidConfig || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	if _, err := Open(t.Context(), Options{Table: "messages", Region: "us-east-1"}); fault.CodeOf(err) != api.CodeInvalidConfig || !strings.Contains(err.Error(), "no credentials") {
		t.Errorf("without credentials: %v", err)
	}
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte("[profile work]\nregion = eu-west-3\naws_access_key_id = a\naws_secret_access_key = b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CONFIG_FILE", file)
	if s, err := Open(t.Context(), Options{Table: "messages", Profile: "work"}); err != nil || s.client.Options().Region != "eu-west-3" {
		t.Errorf("with a profile: %v", err)
	}
}
