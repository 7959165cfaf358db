package claudecli_test

import (
	"fmt"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/agent/agenttest"
	"github.com/berthdev/berth/internal/agent/claudecli"
	"github.com/berthdev/berth/internal/testkit/boxtest"
)

// as makes a turn whose CLI is a script.
func as(script string) agent.Turn {
	turn := agenttest.Turn("anything")
	turn.Command = []string{"/bin/sh", "-c", script, "claude"}
	return turn
}

const result = `echo '{"type":"result","subtype":"success","is_error":false,"modelUsage":{}}'`

// The output of every agent is bounded.
func TestFloods(t *testing.T) {
	h := agenttest.Harness{Runtime: claudecli.New(), Box: boxtest.New(t, boxtest.Options{})}
	for name, c := range map[string]struct {
		script, lost string
	}{
		"garbage":                 {`yes "not a line of JSON" | head -c 20000000; echo; ` + result, ""},
		"one line without an end": {`head -c 20000000 /dev/zero | tr '\0' x; echo; ` + result, agent.StatusOutputLost},
		"words on the side":       {`yes warning | head -c 20000000 >&2; ` + result, ""},
		"events":                  {`yes '{"type":"system","subtype":"api_retry"}' | head -c 4000000; echo; ` + result, agent.StatusRetrying},
	} {
		t.Run(name, func(t *testing.T) {
			o := h.Do(t, as(c.script))
			if o.End.Status != api.TurnCompleted {
				t.Errorf("%+v", o.End)
			}
			got := ""
			for _, e := range o.Events {
				if e.Type == api.EventStatus {
					got = e.Status
				}
			}
			if got != c.lost {
				t.Errorf("it got %q, not %q", got, c.lost)
			}
			for _, s := range o.Steps {
				if len(s.Cursor.State) > 8<<10 {
					t.Fatalf("a state of %d bytes", len(s.Cursor.State))
				}
			}
		})
	}
}

// Who comes back after more was written than is kept goes on with the rest, and gets a notice.
func TestOutputThatIsGone(t *testing.T) {
	h := agenttest.Harness{Runtime: claudecli.New(), Box: boxtest.New(t, boxtest.Options{})}
	turn := as(fmt.Sprintf(`echo '{"type":"assistant","message":{"id":"a","content":"first"}}'; yes "not a line of JSON" | head -c 100000000; %s; echo >over; %s`,
		`echo; echo '{"type":"assistant","message":{"id":"b","content":"last"}}'`, result))
	h.Start(t, turn)
	h.Awaits(t, "over")
	o := h.Read(t, turn, agent.Cursor{})
	if o.End.Status != api.TurnCompleted || o.Events[0].Status != agent.StatusOutputLost || o.Text() != "last" {
		t.Errorf("%+v, it says %q", o.End, o.Text())
	}
}
