package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/template/program"
	"github.com/berthdev/berth/internal/testkit/fakellm"
	"github.com/berthdev/berth/internal/testkit/programtest"
)

// talkSizes sets the sizes of the benchmarks of turns. Zeros mean the defaults of whole.
type talkSizes struct {
	streams int           // number of turns at once in the latency benchmark
	window  time.Duration // duration of one round of the latency benchmark
	rounds  int           // number of rounds of the latency and flood benchmarks
	idle    int           // number of streams of a turn without events
	floods  int           // number of turns at once in the flood benchmark
	flood   int           // number of events of each of these turns
	real    int           // number of turns of a real agent
	agents  []string      // names of the agents of the group agents
}

func (s talkSizes) whole() talkSizes {
	return talkSizes{
		streams: cmp.Or(s.streams, 100), window: cmp.Or(s.window, 5*time.Second), rounds: cmp.Or(s.rounds, 3),
		idle: cmp.Or(s.idle, 2_000), floods: cmp.Or(s.floods, 8), flood: cmp.Or(s.flood, 10_000), real: cmp.Or(s.real, 15),
		agents: s.agents,
	}
}

// turnFigures prints the figures of agents' turns.
func turnFigures(ctx context.Context, size sizes, print func(figure) error) (err error) {
	size.talk = size.talk.whole()
	p, done, err := prepare(ctx, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	model, err := fakellm.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	var stages []*stage
	defer func() {
		for _, s := range stages {
			err = errors.Join(err, s.close())
		}
	}()
	for _, engine := range []string{"sqlite", "postgres"} {
		s, err := p.openStage(ctx, engine, model.URL, program.ClaudeCode.Name)
		if s != nil {
			stages = append(stages, s)
		}
		if err != nil {
			return err
		}
	}
	for _, bench := range []func(context.Context, []*stage, func(figure) error) error{latency, floods, idleStreams} {
		if err := bench(ctx, stages, print); err != nil {
			return err
		}
	}
	return realTurns(ctx, stages[0], model.URL, print)
}

// stage is a server with templates for the scripted agent teller and for real agents.
type stage struct {
	places
	home
	*process
	client *client.Client
	talks  []string // ids of conversations with teller, each in a separate sandbox
}

// openStage starts a server with the programs of some agents.
func (p places) openStage(ctx context.Context, engine, model string, programs ...string) (s *stage, err error) {
	s = &stage{places: p}
	if s.home, err = p.makeHome(ctx, engine, "turns_"+engine, crowd{}); err != nil {
		return nil, err
	}
	if err := s.install(programs); err != nil {
		return nil, err
	}
	config := filepath.Join(s.home.dir, "berth.toml")
	text := fmt.Sprintf(`
[templates.teller]
extends = "none"
runtime = "claude-cli"
agent_command = ["/opt/bench/teller"]
sync = false
[[templates.teller.mounts]]
source = %q
target = "/opt/bench"
[templates.claude]
extends = "claude_code"
[templates.claude.services]
"127.0.0.1:8788" = %q
[templates.claude.env]
ANTHROPIC_BASE_URL = "http://127.0.0.1:8788"
ANTHROPIC_API_KEY = "dummy"
`, s.teller(), model) + agentTemplates(model)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	for range p.talk.streams {
		id, err := s.open(ctx, "teller")
		if err != nil {
			return s, err
		}
		s.talks = append(s.talks, id)
	}
	return s, nil
}

// start starts the server. The data directory may already have sandboxes.
func (s *stage) start(ctx context.Context, env ...string) (err error) {
	s.process, err = serve(ctx, s.berth, s.home.dir, s.home.url, append(env,
		"BERTH_CONFIG="+filepath.Join(s.home.dir, "berth.toml"), "BERTH_DEFAULT_DRIVER=local",
		"BERTH_MAX_TURNS_PER_TENANT=100000", "BERTH_MAX_SANDBOXES_PER_TENANT=100000")...)
	if err == nil {
		s.client, err = client.New(s.base, key)
	}
	return err
}

// install copies the agents to the directories that the templates mount.
func (s *stage) install(programs []string) error {
	for _, name := range programs {
		from, err := programtest.Ensure(name, "")
		if err == nil {
			err = programtest.Copy(from, s.home.dir, name)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(os.MkdirAll(s.teller(), 0o755), writeTeller(filepath.Join(s.teller(), "teller")))
}

// open makes a conversation and its sandbox.
func (s *stage) open(ctx context.Context, template string) (string, error) {
	conv, _, err := s.client.Conversations.Create(ctx, api.CreateConversation{Template: template})
	if err == nil {
		_, _, err = s.client.Conversations.Ensure(ctx, conv.ID)
	}
	return conv.ID, err
}

// close deletes all sandboxes and ends the server.
func (s *stage) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var failed []error
	for sb, err := range s.client.Sandboxes.List(ctx, client.SandboxFilter{}) {
		if err == nil {
			err = s.client.Sandboxes.Delete(ctx, sb.ID, client.Purge())
		}
		failed = append(failed, err)
		if err != nil {
			break
		}
	}
	return errors.Join(append(failed, s.end(), s.remove())...)
}

// teller returns the directory with the scripted agent.
func (s *stage) teller() string { return filepath.Join(s.places.dir, "teller-"+s.engine) }
