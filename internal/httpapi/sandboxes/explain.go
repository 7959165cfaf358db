package sandboxes

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// explainPast is the number of history entries in an explanation.
const explainPast = 20

func (a *handlers) addExplain(op access.OperationFunc) {
	explain := op(http.MethodGet, "/{id}/explain", "explain-sandbox", api.ScopeRead, "Explain a sandbox's state and its next transitions",
		api.CodeInvalidID, api.CodeNotFound)
	explain.Description = "Also for a deleted sandbox, by its id. The request does not count as use of the sandbox."
	rest.Serve(a.Spec, explain, a.explainSandbox)
}

func (a *handlers) explainSandbox(ctx context.Context, in *access.ByRef) (*rest.Reply[api.Explanation], error) {
	s, err := a.Record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	past, _, err := a.In(ctx).History(ctx, s.ID, explainPast, 0)
	if err != nil {
		return nil, err
	}
	holds, err := a.Store.Holds().List(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	t := situation{now: time.Now(), s: s, past: past, ahead: a.Engine.Upcoming(s), holds: holds}
	if s.Host != "" {
		if host, err := a.Store.Hosts().Host(ctx, s.Host); err == nil && !host.Alive {
			t.away = s.Host
		}
	}
	out := a.explanation(t)
	out.Instance = a.instanceNow(ctx, s)
	return &rest.Reply[api.Explanation]{Body: out}, nil
}

// instanceWait is the maximum wait for the driver in an explanation.
const instanceWait = 2 * time.Second

// instanceNow returns the driver's report about the sandbox's instance. It is empty if the driver does not answer.
func (a *handlers) instanceNow(ctx context.Context, s sandbox.Sandbox) (lines []string) {
	ctx, cancel := context.WithTimeout(ctx, instanceWait)
	defer cancel()
	st, err := a.Engine.Instance(ctx, s)
	if err != nil {
		return nil
	}
	if st.Reason != "" {
		lines = append(lines, "problem: "+engine.HideEnv(s.Spec.Env)(st.Reason))
	}
	if u, err := a.Engine.Usage(ctx, s); err == nil && u.OOMKills > 0 {
		lines = append(lines, fmt.Sprintf("memory: full; processes killed since the start: %d", u.OOMKills))
	}
	if st.Phase == driver.PhaseFrozen {
		lines = append(lines, "frozen: all processes are held in memory; the next use, or 'berth thaw', continues them")
	}
	if st.Disk != "" {
		lines = append(lines, "disk: "+st.Disk)
	}
	return lines
}

func (a *handlers) explanation(t situation) api.Explanation {
	hide := engine.HideEnv(t.s.Spec.Env)
	out := api.Explanation{
		Sandbox: engine.Show(t.s), Summary: hide(t.summary()),
		Because: []api.Transition{}, Ahead: []api.Prospect{}, Left: t.s.Finalizers, Keeps: survives(a.Saves),
		Unlimited: a.Engine.Unlimited(t.s.Spec.Driver),
	}
	for _, entry := range t.past {
		entry.Reason = hide(entry.Reason)
		out.Because = append(out.Because, transitionOut(entry))
	}
	for _, p := range t.ahead {
		out.Ahead = append(out.Ahead, api.Prospect{What: p.What, At: access.TimePtr(p.At), Why: hide(p.Why), Off: p.Off})
	}
	for _, h := range t.holds {
		out.Holds = append(out.Holds, api.Hold{Kind: h.Kind, Until: h.Until})
	}
	return out
}

// survives describes which files survive which operation.
func survives(saves bool) []string {
	archive := "archive: the files in /workspace, as saved then; nothing else"
	terminate := "terminate: the files in /workspace, as saved last; nothing if that was skipped"
	remove := "delete: the files in /workspace, as saved last, to be restored into another sandbox; its history"
	if !saves {
		archive = "archive: refused, because this server cannot save workspaces"
		terminate = "terminate: no file, because this server cannot save workspaces; the sandbox itself, to begin anew"
		remove = "delete: nothing but the record of what happened to it"
	}
	return []string{
		"stop: every file, in /workspace, /home/agent and elsewhere; nothing that runs or is only in memory",
		archive, terminate, remove,
	}
}

// situation is a sandbox with its past and its next steps, as it is explained to people.
type situation struct {
	now   time.Time
	s     sandbox.Sandbox
	past  []sandbox.Transition // newest first
	ahead []sandbox.Upcoming
	holds []store.Held
	away  string // machine that has the sandbox and does not answer
}
