package lines_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/agent/agenttest"
	"github.com/berthdev/berth/internal/agent/lines"
	"github.com/berthdev/berth/internal/testkit/boxtest"
)

// shell returns a turn whose agent is a line of shell.
func shell(line string) agent.Turn {
	t := agenttest.Turn("the prompt")
	t.Command = []string{"/bin/sh", "-c", line}
	return t
}

func TestTextIsTheAnswer(t *testing.T) {
	t.Parallel()
	h := agenttest.Harness{Runtime: lines.New(), Box: boxtest.New(t, boxtest.Options{})}
	for _, c := range []struct {
		name, shell string
		text        string
		status      string
		code        api.Code
		message     string
	}{
		{"spaces, empty lines and no last line break", `printf '\n  a\n\n\n\tb \nc'`, "  a\n\n\n\tb \nc", api.TurnCompleted, "", ""},
		{"the prompt", `cat`, "the prompt", api.TurnCompleted, "", ""},
		{"JSON that is no event", `printf '{"type":"module"}\n[1]\n{"no":"type"}\n{"type":"text"'`, `{"type":"module"}` + "\n[1]\n" + `{"no":"type"}` + "\n" + `{"type":"text"`, api.TurnCompleted, "", ""},
		{"text around a call", `echo before; echo '{"type":"tool_call","id":"1","name":"x","input":{}}'; echo '{"type":"tool_result","id":"1","text":"r"}'; echo after; echo more`, "before\n\nafter\nmore", api.TurnCompleted, "", ""},
		{"nothing", `:`, "", api.TurnCompleted, "", ""},
		{"exit code", `echo half; echo why >&2; exit 3`, "half", api.TurnFailed, api.CodeAgentFailed, "why"},
		{"a reported error", `echo half; echo '{"type":"error","message":"no credit left","code":"model_no_credit"}'`, "half", api.TurnFailed, api.CodeModelNoCredit, "no credit left"},
		{"a code of another kind", `echo '{"type":"error","message":"m","code":"not_found"}'`, "", api.TurnFailed, api.CodeAgentFailed, "m"},
		{"a missing program", `exec /opt/none`, "", api.TurnFailed, api.CodeAgentFailed, "/opt/none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := h.Do(t, shell(c.shell))
			if o.Text() != c.text || o.End.Status != c.status || o.End.Code != c.code || !strings.Contains(o.End.Message, c.message) {
				t.Errorf("%q, %+v", o.Text(), o.End)
			}
			if u := o.End.Usage; !u.Estimated || u.InputTokens != 3 || o.End.Model != lines.Name {
				t.Errorf("%+v of %q", u, o.End.Model)
			}
		})
	}
	missing := agenttest.Turn("x")
	missing.Command = []string{"/opt/none"}
	if o := h.Do(t, missing); o.End.Code != api.CodeAgentNotInstalled || !strings.Contains(o.End.Message, "agent_command") {
		t.Errorf("%+v", o.End)
	}
}

// A program learns from its environment and from one file what it may want to know beside the prompt.
func TestProgramKnowsItsContext(t *testing.T) {
	t.Parallel()
	h := agenttest.Harness{Runtime: lines.New(), Box: boxtest.New(t, boxtest.Options{})}
	turn := shell(`cat "$BERTH_CONTEXT"; echo; echo "$BERTH_SESSION $BERTH_TURN_ID $BERTH_MODEL [$BERTH_RESUME] $BERTH_SESSION_DIR $PWD"; touch "$BERTH_SESSION_DIR/x"; ls -ln "$BERTH_CONTEXT"`)
	turn.Model = "large"
	turn.History = []api.Message{
		{Role: api.RoleUser, Content: []api.Block{{Type: api.BlockText, Text: "earlier"}}},
		{Role: api.RoleAssistant, Content: []api.Block{{Type: api.BlockToolUse, Name: "bash"}}},
	}
	turn.Servers = map[string]agent.Server{"s": {Command: []string{"prog", "arg"}, Env: map[string]string{"K": "v"}}}
	o := h.Do(t, turn)
	parts := strings.SplitN(o.Text(), "\n", 3)
	if len(parts) != 3 {
		t.Fatalf("it says %q", o.Text())
	}
	var about struct {
		Turn    string              `json:"turn_id"`
		History []map[string]string `json:"history"`
		Servers map[string]struct {
			Command string
			Args    []string
			Env     map[string]string
		} `json:"mcp_servers"`
	}
	if err := json.Unmarshal([]byte(parts[0]), &about); err != nil {
		t.Fatal(err)
	}
	if s := about.Servers["s"]; about.Turn != turn.ID || len(about.History) != 1 || about.History[0]["text"] != "earlier" || s.Command != "prog" || s.Args[0] != "arg" || s.Env["K"] != "v" {
		t.Errorf("%s", parts[0])
	}
	session := turn.Session.ID
	if want := session + " " + turn.ID + " large [] /workspace/.berth/lines/" + session + " /workspace"; parts[1] != want {
		t.Errorf("%q, not %q", parts[1], want)
	}
	if !strings.HasPrefix(parts[2], "-rw-------") || o.Events[0].Model != "large" {
		t.Errorf("%q, %+v", parts[2], o.Events[0])
	}
	turn = agenttest.Next(turn, "again")
	turn.Command[2] = `echo "[$BERTH_RESUME]"; ls "$BERTH_SESSION_DIR"`
	if o = h.Do(t, turn); o.Text() != "[1]\nx" {
		t.Errorf("the next turn says %q", o.Text())
	}
}
