// Package acp runs agents that speak the Agent Client Protocol over their standard input and output, one process for
// each turn.
//
// [New] returns the runtime. The process of a turn is the protocol's client (package client), which runs in the sandbox
// beside the agent; this package tells it what to do and reads what it prints. What differs between agents is in
// package profile.
package acp

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/berthdev/berth/internal/acp/client"
	"github.com/berthdev/berth/internal/acp/profile"
	"github.com/berthdev/berth/internal/acp/relay"
	"github.com/berthdev/berth/internal/agent"
)

// Name is the name of the runtime in templates.
const Name = "acp"

// New returns the runtime.
func New() *agent.Worker {
	return &agent.Worker{Kind: Name, Job: job, Read: read, Install: install}
}

// of returns the profile of a turn's agent. The name was checked with the template; an unknown one is treated as an
// agent without a profile.
func of(t agent.Turn) profile.Profile {
	p, ok := profile.Find(t.Agent)
	if !ok {
		p, _ = profile.Find("")
	}
	return p
}

func install(t agent.Turn) string {
	if t.Agent == "" || len(t.Command) > 0 {
		return ""
	}
	return "berth template install " + t.Agent
}

func job(t agent.Turn) agent.Job { return Job(t) }

// Job returns the job of a turn. The agent gets further variables, as NAME=value.
func Job(t agent.Turn, env ...string) agent.Job {
	turn := turnOf(of(t), t)
	turn.Env = append(turn.Env, env...)
	if slices.Equal(t.Command, []string{relay.Program, relay.Name}) {
		turn.Unreached = relay.ExitUnreached
	}
	raw, _ := json.Marshal(turn)
	return agent.Job{Inside: true, Argv: []string{client.Program, client.Name}, Input: string(raw)}
}

// turnOf returns the turn for the client.
func turnOf(p profile.Profile, t agent.Turn) client.Turn {
	c := client.Turn{
		Command: p.Command, Bin: p.Bin(), Env: p.Environment(t.Permissions), StateDir: p.StateDir(), Files: p.Files,
		Session: t.Session.ID, Resume: t.Session.Resume, Prompt: t.Text(),
		Servers: servers(t.Servers), Allow: policy(t.Permissions), QuietMS: p.QuietMS, Lingers: p.LingersOnEOF,
		Shape: client.Shape{
			Whole: p.WholeCalls, Grows: p.GrowingCalls, Failures: p.Failures, Notes: p.Notes, Asides: p.Asides, Retries: p.Retries, Repeats: p.RepeatsCut,
		},
	}
	if len(t.Command) > 0 {
		c.Command = t.Command
	}
	if p.Rename != nil {
		c.Rename = &client.Rename{Dir: p.Rename.Dir, From: p.Rename.From, To: p.Rename.To}
	}
	for _, d := range p.Defaults {
		c.Defaults = append(c.Defaults, client.Default(d))
	}
	for _, a := range t.Attachments {
		if a.Inline && a.Size > 0 {
			c.Images = append(c.Images, client.Image{Path: a.Path, MediaType: a.MediaType})
		}
	}
	if !t.Session.Resume {
		c.Fresh = agent.Recall(t.History, t.Text())
	}
	settings, _ := p.Settings(t.Permissions) // the mode was checked with the template
	apply(&c, settings)
	if len(t.Command) == 0 {
		c.Command = append(c.Command, p.Tail...)
	}
	if t.Model != "" {
		c.Calls = append(c.Calls, modelCall(p.Model, t.Model))
	}
	return c
}

func policy(mode string) client.Policy {
	switch mode {
	case "", profile.ModeEverything:
		return client.AllowAll
	case profile.ModeEdits:
		return client.AllowEdits
	}
	return client.AllowNone
}

// apply adds settings to the turn.
func apply(c *client.Turn, all []profile.Setting) {
	c.Command = slices.Clone(c.Command)
	for _, s := range all {
		switch {
		case s.Flag != "":
			c.Command = append(c.Command, s.Flag)
		case s.Mode != "":
			c.Calls = append(c.Calls, client.Call{Method: "session/set_mode", Params: map[string]any{"modeId": s.Mode}})
		case s.Option != "":
			c.Calls = append(c.Calls, client.Call{Method: "session/set_config_option", Params: option(s)})
		}
	}
}

func option(s profile.Setting) map[string]any {
	params := map[string]any{"configId": s.Option, "value": s.Value}
	if _, ok := s.Value.(bool); ok {
		params["type"] = "boolean"
	}
	return params
}

func modelCall(how profile.ModelSetting, model string) client.Call {
	if how == profile.ModelRequest {
		return client.Call{Method: string(how), Params: map[string]any{"modelId": model}, Must: true}
	}
	return client.Call{Method: "session/set_config_option", Params: map[string]any{"configId": "model", "value": model}, Must: true}
}

func servers(all map[string]agent.Server) (list []client.Server) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		out := client.Server{Name: name, Command: s.Command[0], Args: append([]string{}, s.Command[1:]...), Env: []client.Variable{}}
		for _, v := range slices.Sorted(maps.Keys(s.Env)) {
			out.Env = append(out.Env, client.Variable{Name: v, Value: s.Env[v]})
		}
		list = append(list, out)
	}
	return list
}

func read(t agent.Turn, saved json.RawMessage) (agent.Reader, error) {
	r := &reader{turn: t, profile: of(t)}
	if len(saved) > 0 {
		if err := json.Unmarshal(saved, &r.state); err != nil {
			return nil, err
		}
	}
	return r, nil
}
