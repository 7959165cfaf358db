package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// explainPast is how much of its history explains a sandbox.
const explainPast = 20

func (a *Handler) addExplain(op opMaker) {
	explain := op(http.MethodGet, "/{id}/explain", "explain-sandbox", api.ScopeRead, "Why a sandbox is as it is, and what will happen to it",
		api.CodeInvalidID, api.CodeNotFound)
	explain.Description = "Of a deleted one, too, by its id. Asking is no use of the sandbox."
	serve(a, explain, a.explainSandbox)
}

func (a *Handler) explainSandbox(ctx context.Context, in *ByRef) (*reply[api.Explanation], error) {
	s, err := a.recordOf(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	past, _, err := a.in(ctx).History(ctx, s.ID, explainPast, 0)
	if err != nil {
		return nil, err
	}
	holds, err := a.Store.Holds(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	t := story{now: time.Now(), s: s, past: past, ahead: a.Engine.Ahead(s), holds: holds}
	return &reply[api.Explanation]{a.explanation(t)}, nil
}

func (a *Handler) explanation(t story) api.Explanation {
	hide := withoutEnv(t.s.Spec.Env)
	out := api.Explanation{
		Sandbox: sandboxOut(t.s), Summary: hide(t.summary()),
		Because: []api.Transition{}, Ahead: []api.Prospect{}, Left: t.s.Finalizers, Keeps: survives(a.Saves),
	}
	for _, entry := range t.past {
		entry.Reason = hide(entry.Reason)
		out.Because = append(out.Because, transitionOut(entry))
	}
	for _, p := range t.ahead {
		out.Ahead = append(out.Ahead, api.Prospect{What: p.What, At: moment(p.At), Why: hide(p.Why), Off: p.Off})
	}
	for _, h := range t.holds {
		out.Holds = append(out.Holds, api.Hold{Kind: h.Kind, Until: h.Until})
	}
	return out
}

// survives says what of a sandbox's files survives what.
func survives(saves bool) []string {
	archive := "archive: what is in /workspace, as it was saved then; nothing else"
	terminate := "terminate: what is in /workspace, as it was saved last; nothing if that was skipped"
	remove := "delete: what is in /workspace, as it was saved last, to be restored into another sandbox; the record of what happened to it"
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

// story is what is known of a sandbox when it is explained.
type story struct {
	now   time.Time
	s     sandbox.Sandbox
	past  []sandbox.Transition // newest first
	ahead []sandbox.Prospect
	holds []store.Held
}
