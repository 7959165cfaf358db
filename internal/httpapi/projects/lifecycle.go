package projects

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/project"
	"github.com/berthdev/berth/internal/sandbox"
)

// addProjectLife adds the routes that check a project's sandbox and the routes that change its state.
func (a *handlers) addProjectLife(one string) {
	looking := []api.Code{api.CodeInvalidID, api.CodeNotFound, api.CodeWrongHost, api.CodeUnknownDriver, api.CodeStale}
	health := projectOp(http.MethodGet, one+"/health", "check-project-sandbox", api.ScopeRead, "Check the health of the project's sandbox", looking...)
	health.Description = "Asks the driver and the processes inside, and changes nothing. The server also checks in the background and recovers unhealthy sandboxes."
	rest.Serve(a.Spec, health, a.projectHealth)

	compare := projectOp(http.MethodGet, one+"/sync", "compare-project-sandbox", api.ScopeRead, "Compare the record of the project's sandbox with its instance", looking...)
	compare.Description = "Changes nothing. The answer lists the steps that would resolve a difference; POST runs them."
	rest.Serve(a.Spec, compare, a.compareProject)
	rest.Serve(a.Spec, projectOp(http.MethodPost, one+"/sync", "sync-project-sandbox", api.ScopeWrite, "Reconcile the record of the project's sandbox with its instance", access.ReachProblems...), a.syncProject)

	rest.Serve(a.Spec, projectOp(http.MethodPost, one+"/restart", "restart-project-sandbox", api.ScopeWrite, "Restart the project's sandbox", access.InterruptProblems...), a.restartProject)
	terminate := projectOp(http.MethodDelete, one, "terminate-project-sandbox", api.ScopeWrite, "Terminate the instance of the project's sandbox", access.InterruptProblems...)
	terminate.Description = "The workspace is saved first if the server saves workspaces; the instance's other files are deleted. The project keeps its sandbox, and the next use creates a new instance."
	rest.Serve(a.Spec, terminate, a.terminateProject)

	remove := projectOp(http.MethodDelete, exchange.OneProject, "delete-project", api.ScopeWrite, "Delete a project and its sandbox", api.CodeInvalidID, api.CodeNotFound)
	remove.Description = "Returns 204 when the sandbox is gone, or 202 if that takes longer; the delete then continues in the background, and GET of the sandbox by its sandbox_id shows its progress. A repeated delete waits for the same one. The id can be used again when the sandbox is gone: an ensure waits for that, or returns 409 deleting."
	remove.Status, remove.Also = http.StatusAccepted, map[int]string{http.StatusNoContent: "The sandbox is gone"}
	rest.Serve(a.Spec, remove, a.deleteProject)

	cleanup := projectOp(http.MethodPost, exchange.ProjectsPath+"/sandboxes/cleanup", "clean-up-project-sandboxes", api.ScopeAdmin, "Release the sandboxes of idle projects")
	cleanup.Description = "Saves and terminates each idle sandbox or, if its workspace cannot be saved, stops it and keeps its files. The next use starts it again. A sandbox that is used during the cleanup is left alone. Only the key's own tenant is affected."
	rest.Serve(a.Spec, cleanup, a.cleanUpProjects)
}

func (a *handlers) projectHealth(ctx context.Context, in *ByProject) (*rest.Reply[api.ProjectHealth], error) {
	l, err := a.inProjects(ctx).Inspect(ctx, in.ProjectID)
	if err != nil {
		return nil, err
	}
	return &rest.Reply[api.ProjectHealth]{Body: api.ProjectHealth{
		ProjectID: l.Sandbox.Owner.ID, SandboxID: l.Sandbox.ID, Status: l.Sandbox.State.ProjectStatus(),
		Healthy: l.Healthy(), Actual: string(l.Seen.Sight), Detail: healthDetail(l), CheckedAt: l.At,
	}}, nil
}

// healthDetail describes the sandbox's problem for people.
func healthDetail(l engine.Inspection) string {
	detail := l.Seen.Detail
	switch {
	case detail != "" || l.Healthy():
	case l.Seen.Sight == sandbox.Up && l.Seen.Ill != sandbox.Well:
		detail = "it runs, and nothing in it answers"
	case l.Seen.Sight == sandbox.Missing && l.Sandbox.State != sandbox.Running:
		detail = fmt.Sprintf("it is %s and has no instance", l.Sandbox.State)
	default:
		detail = fmt.Sprintf("its record says %s, and its instance is %s", l.Sandbox.State, l.Seen.Sight)
	}
	return detail
}

func (a *handlers) compareProject(ctx context.Context, in *ByProject) (*rest.Reply[api.ProjectSync], error) {
	return syncReply(a.inProjects(ctx).Inspect(ctx, in.ProjectID))
}

func (a *handlers) syncProject(ctx context.Context, in *ByProject) (*rest.Reply[api.ProjectSync], error) {
	return syncReply(a.inProjects(ctx).Reconcile(ctx, in.ProjectID))
}

func syncReply(l engine.Inspection, err error) (*rest.Reply[api.ProjectSync], error) {
	if err != nil {
		return nil, err
	}
	out := api.ProjectSync{
		ProjectID: l.Sandbox.Owner.ID, SandboxID: l.Sandbox.ID, Recorded: l.Sandbox.State.ProjectStatus(),
		Actual: string(l.Seen.Sight), Agrees: l.Agrees(), Detail: l.Seen.Detail, Sandbox: projectOut(l.Sandbox),
	}
	for _, step := range l.Would {
		out.Would = append(out.Would, stepOut(step))
	}
	return &rest.Reply[api.ProjectSync]{Body: out}, nil
}

// stepOut describes a step of the engine's plan for people.
func stepOut(step sandbox.Step) string {
	what := map[sandbox.Op]string{
		sandbox.OpObserve: "ask the driver", sandbox.OpCreate: "make an instance", sandbox.OpStart: "start the instance",
		sandbox.OpRestore: "bring the workspace up", sandbox.OpStop: "stop the instance", sandbox.OpSave: "save the workspace",
		sandbox.OpHeal: "start the agent's server again",
	}[step.Op]
	switch step.Op {
	case sandbox.OpMark:
		what = "record the event " + string(step.Event)
	case sandbox.OpDestroy:
		what = "end the instance " + string(step.Instance)
	case sandbox.OpFinal:
		what = "run the finalizer: " + step.Final
	case sandbox.OpAsk:
		what = "ask it to be " + string(step.Want)
	}
	if step.Reason != "" {
		what += ": " + step.Reason
	}
	return what
}

type interruptProject struct {
	ByProject
	access.Forcing
}

func (a *handlers) restartProject(ctx context.Context, in *interruptProject) (*rest.Reply[api.ProjectSandbox], error) {
	before, err := a.clearProject(ctx, in.ProjectID, in.Force, "asked to restart its sandbox")
	if err != nil {
		return nil, err
	}
	s, err := a.inProjects(ctx).Restart(ctx, in.ProjectID)
	access.SetNotice(ctx, before.ActiveAt, s)
	return projectReply(s, err)
}

type endProject struct {
	ByProject
	access.Ending
}

type terminateProject struct {
	ByProject
	access.Ending
	access.Forcing
}

func (a *handlers) terminateProject(ctx context.Context, in *terminateProject) (*rest.Reply[api.ProjectSandbox], error) {
	before, err := a.clearProject(ctx, in.ProjectID, in.Force, "asked to terminate its sandbox")
	if err != nil {
		return nil, err
	}
	s, err := a.inProjects(ctx).Terminate(ctx, in.ProjectID, !in.Sync)
	access.SetNotice(ctx, before.ActiveAt, s)
	return projectReply(s, err)
}

func (a *handlers) deleteProject(ctx context.Context, in *endProject) (*rest.Deleted[api.ProjectSandbox], error) {
	s, err := a.inProjects(ctx).Occupant(ctx, in.ProjectID)
	if err == nil {
		err = a.ClearForDelete(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, a.DeleteWait)
	defer cancel()
	s, err = a.inProjects(ctx).Delete(wait, in.ProjectID, !in.Sync)
	return access.ShowDeleted(s, err, projectOut)
}

func (a *handlers) cleanUpProjects(ctx context.Context, in *struct{ Body api.CleanupProjects }) (*rest.Reply[api.ProjectCleanup], error) {
	wait, cancel := context.WithTimeout(ctx, a.DeleteWait)
	defer cancel()
	cleaned, more, err := a.inProjects(ctx).Cleanup(wait, time.Duration(in.Body.MaxIdleSeconds)*time.Second, in.Body.DryRun)
	if err != nil {
		return nil, err
	}
	out := api.ProjectCleanup{DryRun: in.Body.DryRun, Items: []api.CleanedProject{}, More: more}
	for _, c := range cleaned {
		out.Items = append(out.Items, cleanedOut(ctx, c))
	}
	return &rest.Reply[api.ProjectCleanup]{Body: out}, nil
}

func cleanedOut(ctx context.Context, c project.Cleaned) api.CleanedProject {
	out := api.CleanedProject{
		ProjectID: c.Sandbox.Owner.ID, SandboxID: c.Sandbox.ID, Done: c.Done,
		IdleSeconds: int64(time.Since(c.Sandbox.ActiveAt).Seconds()),
		Action:      map[sandbox.Want]string{sandbox.WantGone: "terminate", sandbox.WantStopped: "stop"}[c.Want],
	}
	if c.Err != nil {
		out.Error = engine.HideEnv(c.Sandbox.Spec.Env)(exchange.ProblemOf(ctx, c.Err).Detail)
	}
	return out
}

// clearProject is ClearTurns for a project's sandbox. It returns the sandbox's record from before.
func (a *handlers) clearProject(ctx context.Context, id string, force bool, reason string) (sandbox.Sandbox, error) {
	s, err := a.inProjects(ctx).Get(ctx, id)
	if err != nil {
		return s, err
	}
	return s, a.ClearTurns(ctx, s, force, reason)
}
