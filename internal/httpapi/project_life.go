package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/project"
	"github.com/berthdev/berth/internal/sandbox"
)

// addProjectLife adds what looks at a project's sandbox and what changes it.
func (a *Handler) addProjectLife(one string) {
	looking := []api.Code{api.CodeInvalidID, api.CodeNotFound, api.CodeWrongHost, api.CodeUnknownDriver, api.CodeStale}
	health := projectOp(http.MethodGet, one+"/health", "check-project-sandbox", api.ScopeRead, "Look whether the project's sandbox is healthy", looking...)
	health.Description = "Asks its driver, and whoever answers inside, and changes nothing. The server looks by itself, too, and recovers what it finds ill."
	serve(a, health, a.projectHealth)

	compare := projectOp(http.MethodGet, one+"/sync", "compare-project-sandbox", api.ScopeRead, "Compare the record of the project's sandbox with what is there", looking...)
	compare.Description = "Changes neither. What would be done about a difference is in the answer; POST does it."
	serve(a, compare, a.compareProject)
	serve(a, projectOp(http.MethodPost, one+"/sync", "sync-project-sandbox", api.ScopeWrite, "Bring the record of the project's sandbox and what is there together", reaching...), a.syncProject)

	serve(a, projectOp(http.MethodPost, one+"/restart", "restart-project-sandbox", api.ScopeWrite, "Stop the project's sandbox and start it again", interrupting...), a.restartProject)
	terminate := projectOp(http.MethodDelete, one, "terminate-project-sandbox", api.ScopeWrite, "End the instance of the project's sandbox, and its files", interrupting...)
	terminate.Description = "A last version is saved first where the server can do that. The project keeps its sandbox: the next use makes a new instance."
	serve(a, terminate, a.terminateProject)

	remove := projectOp(http.MethodDelete, oneProject, "delete-project", api.ScopeWrite, "Delete a project and its sandbox for good", api.CodeInvalidID, api.CodeNotFound)
	remove.Description = "Answers 204 once nothing of it is left, or 202 if that takes longer; it then goes on by itself, and reading the sandbox by its sandbox_id shows how far it is. A repeated delete joins it. The id is free once nothing is left: an ensure waits for that, or answers 409 deleting."
	remove.Status, remove.Also = http.StatusAccepted, map[int]string{http.StatusNoContent: "Gone"}
	serve(a, remove, a.deleteProject)

	cleanup := projectOp(http.MethodPost, projectsPath+"/sandboxes/cleanup", "clean-up-project-sandboxes", api.ScopeAdmin, "Let go of the sandboxes of projects that nobody used for long")
	cleanup.Description = "Terminates each after a save or, where nothing can be saved, stops it and keeps its files; the next use brings it back. What is used or held meanwhile stays as it is. Only the key's own tenant is touched."
	serve(a, cleanup, a.cleanUpProjects)
}

func (a *Handler) projectHealth(ctx context.Context, in *ByProject) (*reply[api.ProjectHealth], error) {
	l, err := a.inProjects(ctx).Look(ctx, in.ProjectID)
	if err != nil {
		return nil, err
	}
	return &reply[api.ProjectHealth]{api.ProjectHealth{
		ProjectID: l.Sandbox.Owner.ID, SandboxID: l.Sandbox.ID, Status: l.Sandbox.State.ProjectStatus(),
		Healthy: l.Healthy(), Actual: string(l.Seen.Sight), Detail: ailment(l), CheckedAt: l.At,
	}}, nil
}

// ailment is what is wrong, for people.
func ailment(l engine.Look) string {
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

func (a *Handler) compareProject(ctx context.Context, in *ByProject) (*reply[api.ProjectSync], error) {
	return syncReply(a.inProjects(ctx).Look(ctx, in.ProjectID))
}

func (a *Handler) syncProject(ctx context.Context, in *ByProject) (*reply[api.ProjectSync], error) {
	return syncReply(a.inProjects(ctx).Reconcile(ctx, in.ProjectID))
}

func syncReply(l engine.Look, err error) (*reply[api.ProjectSync], error) {
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
	return &reply[api.ProjectSync]{out}, nil
}

// stepOut is a step of the engine's plan, for people.
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
		what = "do what is left: " + step.Final
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
	Forcing
}

func (a *Handler) restartProject(ctx context.Context, in *interruptProject) (*reply[api.ProjectSandbox], error) {
	if err := a.clearProject(ctx, in.ProjectID, in.Force, "asked to restart its sandbox"); err != nil {
		return nil, err
	}
	return projectReply(a.inProjects(ctx).Restart(ctx, in.ProjectID))
}

// Ending are the parameters of whatever ends a volume.
type Ending struct {
	Sync bool `query:"sync" default:"true" doc:"Save a last version of the workspace first, where the server can do that"`
}

type endProject struct {
	ByProject
	Ending
}

type terminateProject struct {
	ByProject
	Ending
	Forcing
}

func (a *Handler) terminateProject(ctx context.Context, in *terminateProject) (*reply[api.ProjectSandbox], error) {
	if err := a.clearProject(ctx, in.ProjectID, in.Force, "asked to terminate its sandbox"); err != nil {
		return nil, err
	}
	return projectReply(a.inProjects(ctx).Terminate(ctx, in.ProjectID, !in.Sync))
}

func (a *Handler) deleteProject(ctx context.Context, in *endProject) (*deleted[api.ProjectSandbox], error) {
	s, err := a.inProjects(ctx).Occupant(ctx, in.ProjectID)
	if err == nil {
		err = a.clearToDelete(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, a.DeleteWait)
	defer cancel()
	s, err = a.inProjects(ctx).Delete(wait, in.ProjectID, !in.Sync)
	return deletedOut(s, err, projectOut)
}

func (a *Handler) cleanUpProjects(ctx context.Context, in *struct{ Body api.CleanupProjects }) (*reply[api.ProjectCleanup], error) {
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
	return &reply[api.ProjectCleanup]{out}, nil
}

func cleanedOut(ctx context.Context, c project.Cleaned) api.CleanedProject {
	out := api.CleanedProject{
		ProjectID: c.Sandbox.Owner.ID, SandboxID: c.Sandbox.ID, Done: c.Done,
		IdleSeconds: int64(time.Since(c.Sandbox.ActiveAt).Seconds()),
		Action:      map[sandbox.Want]string{sandbox.WantGone: "terminate", sandbox.WantStopped: "stop"}[c.Want],
	}
	if c.Err != nil {
		out.Error = withoutEnv(c.Sandbox.Spec.Env)(problemOf(ctx, c.Err).Detail)
	}
	return out
}
