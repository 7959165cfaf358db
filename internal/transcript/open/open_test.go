package open

import (
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/dynamotest"
)

func TestDatabase(t *testing.T) {
	db, err := store.Open(t.Context(), store.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := Store(t.Context(), "", db)
	if err != nil || s.Check(t.Context()) != nil {
		t.Errorf("%v", err)
	}
	if report, err := Migrate(t.Context(), ""); report != "" || err != nil {
		t.Errorf("%q, %v", report, err)
	}
}

func TestDynamoDB(t *testing.T) {
	testkit.Proves(t, "C6")
	dynamotest.Setenv(t)
	address := dynamotest.New(t).URL()
	s, err := Store(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err == nil {
		t.Error("it is there before it was made")
	}
	for _, want := range []string{"was made", "is there"} {
		if report, err := Migrate(t.Context(), address); !strings.Contains(report, want) || err != nil {
			t.Errorf("%q, %v", report, err)
		}
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAddressesThatAreRefused(t *testing.T) {
	dynamotest.Setenv(t)
	for _, address := range []string{"none", "dynamodb://x", "dynamodb://messages"} {
		s, err := Store(t.Context(), address, nil)
		_, failed := Migrate(t.Context(), address)
		for _, err := range []error{err, failed} {
			if s != nil || fault.CodeOf(err) != api.CodeInvalidConfig {
				t.Errorf("%q: %v, %v", address, s, err)
			}
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "wrong")
	proxy, b := dynamotest.Before(t, dynamotest.New(t))
	proxy.Set(func(string) dynamotest.Fate { return dynamotest.Fate{Status: 400, Code: "UnrecognizedClientException"} })
	if _, err := Migrate(t.Context(), b.URL()); err == nil || !strings.Contains(err.Error(), "UnrecognizedClient") {
		t.Errorf("with wrong credentials: %v", err)
	}
}
