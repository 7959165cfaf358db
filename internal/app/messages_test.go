package app_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/app"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/dynamotest"
)

// configured is the configuration of an environment.
func configured(t *testing.T, env []string) *config.Loaded {
	t.Helper()
	cfg, err := config.Load(config.Sources{Env: func(name string) (string, bool) {
		v := value(env, name)
		return v, v != ""
	}})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestMessageStoreIsMadeByMigrate(t *testing.T) {
	testkit.Proves(t, "C6")
	dynamotest.Setenv(t)
	cfg := configured(t, append(fresh(t), "BERTH_MESSAGE_STORE="+dynamotest.New(t).URL()))
	s, err := app.NewServer(t.Context(), app.Options{Config: cfg, Log: t.Output()})
	var e *fault.Error
	if err == nil {
		t.Fatal(errors.Join(errors.New("it starts without its table"), s.Close()))
	}
	if !errors.As(err, &e) || !strings.Contains(e.Hint, "berth migrate") || !strings.Contains(err.Error(), cfg.MessageStore[:20]) {
		t.Errorf("it does not say what to do: %v", err)
	}
	for _, want := range []string{"was made", "is there"} {
		if report, err := app.Migrate(t.Context(), cfg); !strings.Contains(report, want) || !strings.Contains(report, "has schema") || err != nil {
			t.Errorf("%q, %v", report, err)
		}
	}
	s, err = app.NewServer(t.Context(), app.Options{Config: cfg, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A message store that does not answer just now keeps nobody from starting: messages wait for it.
func TestServerStartsWithoutItsMessageStore(t *testing.T) {
	dynamotest.Setenv(t)
	proxy, table := dynamotest.Before(t, dynamotest.New(t))
	proxy.Set(func(string) dynamotest.Fate { return dynamotest.Fate{Cut: true} })
	log := new(logs)
	s, err := app.NewServer(t.Context(), app.Options{Config: configured(t, append(fresh(t), "BERTH_MESSAGE_STORE="+table.URL())), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "messages cannot be stored now") {
		t.Errorf("it does not say so:\n%s", log)
	}
}
