package projects

import (
	"testing"

	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/sandbox"
)

func TestEveryStepIsToldInWords(t *testing.T) {
	for want, step := range map[string]sandbox.Step{
		"ask the driver: health check":          {Op: sandbox.OpObserve, Reason: "health check"},
		"make an instance":                      {Op: sandbox.OpCreate},
		"start the instance":                    {Op: sandbox.OpStart},
		"bring the workspace up":                {Op: sandbox.OpRestore},
		"stop the instance":                     {Op: sandbox.OpStop},
		"save the workspace":                    {Op: sandbox.OpSave},
		"start the agent's server again":        {Op: sandbox.OpHeal},
		"record the event lost: it is gone":     {Op: sandbox.OpMark, Event: sandbox.EventLost, Reason: "it is gone"},
		"end the instance i-1":                  {Op: sandbox.OpDestroy, Instance: "i-1"},
		"run the finalizer: holds":              {Op: sandbox.OpFinal, Final: "holds"},
		"ask it to be stopped: not used for 1h": {Op: sandbox.OpAsk, Want: sandbox.WantStopped, Reason: "not used for 1h"},
	} {
		if got := stepOut(step); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestIllnessIsToldInWords(t *testing.T) {
	look := func(state sandbox.State, sight sandbox.Sight, ill sandbox.Illness) engine.Inspection {
		return engine.Inspection{Sandbox: sandbox.Sandbox{State: state}, Seen: sandbox.Observation{Sight: sight, Ill: ill}}
	}
	for want, l := range map[string]engine.Inspection{
		"":                                     look(sandbox.Running, sandbox.Up, sandbox.Well),
		"it runs, and nothing in it answers":   look(sandbox.Running, sandbox.Up, sandbox.IllInside),
		"it is terminated and has no instance": look(sandbox.Terminated, sandbox.Missing, sandbox.Well),
		"its record says running, and its instance is down":    look(sandbox.Running, sandbox.Down, sandbox.Well),
		"its record says stopped, and its instance is up":      look(sandbox.Stopped, sandbox.Up, sandbox.Well),
		"its record says running, and its instance is unclear": look(sandbox.Running, sandbox.Unclear, sandbox.Well),
	} {
		if got := healthDetail(l); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
