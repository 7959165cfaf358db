package app_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
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
	t.Parallel()
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

// A message store that refuses or hangs does not keep a server from starting, and the start does not wait for it:
// messages are kept until it answers. Readiness says so at once.
func TestServerStartsWithoutItsMessageStore(t *testing.T) {
	testkit.Proves(t, "C6")
	t.Parallel()
	for name, fate := range map[string]dynamotest.Fate{"refused": {Cut: true}, "hanging": {Hang: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, table := dynamotest.Before(t, dynamotest.New(t))
			env := append(fresh(t), "BERTH_MESSAGE_STORE="+table.URL())
			cfg := configured(t, env)
			if _, err := app.Migrate(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			proxy.Set(func(string) dynamotest.Fate { return fate })
			p := start(t, env)
			ready := p.ready(t)
			if n := proxy.GivenUp(); n > 0 {
				t.Errorf("the start waited until %d checks of the message store were given up", n)
			}
			if ready.Status != "degraded" || !strings.Contains(p.logs.String(), "messages cannot be stored now") {
				t.Errorf("nothing says so: %+v\n%s", ready, p.logs)
			}
			proxy.Set(nil)
			testkit.Eventually(t, 2*time.Minute, func() error {
				if ready := p.ready(t); ready.Status != "ready" {
					return fmt.Errorf("%+v", ready)
				}
				return nil
			})
			if err := p.end(t); err != nil {
				t.Fatal(err)
			}
			proxy.Set(func(string) dynamotest.Fate { return fate })
			if checks := app.Probe(t.Context(), cfg); !slices.ContainsFunc(checks, func(c api.Check) bool {
				return c.Name == "message store" && c.Status == "failed" && c.Fix != ""
			}) {
				t.Errorf("a probe does not find it: %+v", checks)
			}
			asked := proxy.Calls("PutItem")
			if _, err := app.Down(t.Context(), cfg); err != nil || proxy.Calls("PutItem") != asked {
				t.Errorf("stopping all sandboxes asks the message store: %v", err)
			}
		})
	}
}

// A message store that refuses the server's credentials refuses the start. One that does so only later does not end the
// server, and readiness and the log say what to do.
func TestWrongCredentialsOfTheMessageStore(t *testing.T) {
	t.Parallel()
	proxy, table := dynamotest.Before(t, dynamotest.New(t))
	env := append(fresh(t), "BERTH_MESSAGE_STORE="+table.URL())
	wrong := func(string) dynamotest.Fate { return dynamotest.Fate{Status: 400, Code: "UnrecognizedClientException"} }
	proxy.Set(wrong)
	testkit.Eventually(t, time.Minute, func() error { // on a busy machine, an answer may come after the start
		p, up := tryStart(t, env)
		if !up && strings.Contains(p.logs.String(), "AWS_ACCESS_KEY_ID") {
			return nil
		}
		return errors.Join(fmt.Errorf("it starts: %v\n%s", up, p.logs), p.end(t))
	})
	proxy.Set(func(string) dynamotest.Fate { return dynamotest.Fate{Hang: true} })
	p := start(t, env)
	proxy.Set(wrong)
	testkit.Eventually(t, 2*time.Minute, func() error {
		ready := p.ready(t)
		if !slices.ContainsFunc(ready.Checks, func(c api.Check) bool {
			return c.Name == "message store" && c.Status == "warning" && strings.Contains(c.Fix, "AWS_ACCESS_KEY_ID")
		}) || !strings.Contains(p.logs.String(), "the message store refuses messages") {
			return fmt.Errorf("%+v\n%s", ready, p.logs)
		}
		return nil
	})
}
