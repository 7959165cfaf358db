package chat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/transcript"
)

// runtime returns the runtime of the template's agent.
func (s *Service) runtime(p Plan) (agent.Runtime, error) {
	if r := s.opts.Runtimes[p.Runtime]; r != nil {
		return r, nil
	}
	return nil, fault.Errorf("find the agent's runtime", api.CodeUnknownRuntime, "there is no runtime %q; there are: %s",
		p.Runtime, strings.Join(slices.Sorted(maps.Keys(s.opts.Runtimes)), ", "))
}

// attempt starts the agent, unless it runs already, and stores its output until the agent ends. After an error this
// holder cannot continue, but another holder can.
func (w *work) attempt(ctx context.Context) (*agent.End, last, error) {
	prepared := w.thawIfCancelled(ctx)
	end, err := w.prepare(ctx)
	prepared()
	if end != nil || err != nil {
		return end, last{}, err
	}
	if err := w.loadSecrets(ctx); err != nil {
		return nil, last{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w.background = sync.WaitGroup{}
	defer w.background.Wait()
	defer stop()
	asked := w.asked(nil)
	w.background.Go(func() { w.watchCancel(ctx, asked) })
	return w.follow(ctx, asked)
}

// prepare makes the sandbox run and starts the agent in it. After a crash it first checks whether the last holder
// started the agent. It returns an end if the turn ends before the agent starts.
func (w *work) prepare(ctx context.Context) (*agent.End, error) {
	var err error
	if w.plan, err = w.opts.Plan(w.turn.Template); err == nil {
		w.runtime, err = w.Service.runtime(w.plan)
	}
	if err != nil {
		return failed(err), nil
	}
	if w.turn.Attempt > 0 && !w.neverStarted(ctx) {
		return nil, nil
	}
	if !w.turn.CancelAt.IsZero() {
		return &agent.End{Status: api.TurnCancelled}, nil
	}
	if end, err := w.ready(ctx); end != nil || err != nil {
		return end, err
	}
	if w.turn.Attempt == 0 {
		if err := w.firstAttempt(ctx); err != nil {
			return nil, err
		}
	}
	return w.start(ctx)
}

// neverStarted reports whether the recorded attempt was never started: its holder died between the record and the start.
// That is certain only if the sandbox is still in the same incarnation and does not know the agent's process.
func (w *work) neverStarted(ctx context.Context) bool {
	sb, err := w.handle.Record(ctx)
	if err != nil || sb.Incarnation != w.state.Incarnation || w.turn.ReadTo > 0 {
		return false
	}
	for _, err := range w.runtime.Events(ctx, w.handle, w.asked(nil), agent.Cursor{}) {
		return errors.Is(err, guest.ErrNoProcess)
	}
	return false
}

// firstAttempt sends the prompt and records the first attempt, with the conversation's session if it has one.
func (w *work) firstAttempt(ctx context.Context) error {
	w.sendPrompt(ctx)
	c, err := w.opts.Store.In(w.turn.Tenant).Conversation(ctx, w.turn.Conversation)
	if err != nil {
		return err
	}
	if c.Session == "" {
		return w.beginAttempt(ctx, store.NewID(), false, false)
	}
	return w.beginAttempt(ctx, c.Session, c.SessionTurns > 0, false)
}

// sendPrompt sends the user's message to the message store and runs the hooks for it.
func (w *work) sendPrompt(ctx context.Context) {
	w.flushMessages(ctx, w.turn.Message)
	if w.opts.Hooks == nil {
		return
	}
	if d, err := w.data(ctx, userMessage(w.turn)); err == nil {
		w.opts.Hooks.Message(ctx, d)
		w.remember(ctx, w.turn.Tenant, d)
	}
}

// ready makes the sandbox run. It retries temporary errors, and appends an event that says why the turn waits. It
// returns an end if it gives up.
func (w *work) ready(ctx context.Context) (*agent.End, error) {
	patient, cancel := context.WithTimeout(ctx, w.opts.Patience)
	defer cancel()
	var why *fault.Error // of the last event
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		sb, err := w.sandboxOf(patient, w.turn)
		if err == nil {
			w.hold(ctx)
			if sb.Owner.Kind == sandbox.OwnerThread {
				w.opts.Engine.KeepExposed(sb)
			}
			w.at("ready", w.turn.ID)
			return nil, context.Cause(ctx)
		}
		var e *fault.Error
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case patient.Err() != nil && why != nil: // err says only that the time is over
			return failed(why), nil
		case !errors.As(err, &e) || !e.Code.Info().Retryable && !e.Retry || w.cancelled(ctx):
			return failed(err), nil
		case why == nil || why.Code != e.Code:
			w.opts.Log.WarnContext(ctx, "the turn waits for its sandbox", "state", sb.State, "error", err)
			if err := w.say(ctx, waiting(e)); err != nil {
				return nil, err
			}
		}
		why = e
		select {
		case <-patient.Done():
		case <-time.After(pause):
		}
	}
}

// StatusWaiting is the status of a turn that waits for its sandbox.
const StatusWaiting = "waiting"

// waiting returns the event of a turn that waits because of an error. Only a delete's own text is shown: the texts of
// other errors may have addresses of the server's stores.
func waiting(e *fault.Error) api.TurnEvent {
	event := api.TurnEvent{Type: api.EventStatus, Status: StatusWaiting, Code: e.Code, Message: e.Code.Info().Title}
	if e.Code == api.CodeDeleting {
		event.Message = e.Err.Error()
	}
	if e.Hint != "" {
		event.Message += ". " + e.Hint
	}
	return event
}

// failed returns the end of a turn that fails because of an error of the server.
func failed(err error) *agent.End {
	return &agent.End{Status: api.TurnFailed, Code: fault.CodeOf(err), Message: err.Error()}
}

// start starts the agent. It returns an end if the agent cannot be started.
func (w *work) start(ctx context.Context) (*agent.End, error) {
	history, err := w.history(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.loadSecrets(ctx); err != nil {
		return nil, err
	}
	w.at("before-start", w.turn.ID)
	if err = w.putFiles(ctx); err == nil {
		err = w.runtime.Start(ctx, w.handle, w.asked(history))
	}
	w.at("after-start", w.turn.ID)
	switch {
	case err == nil:
		return nil, w.reportFiles(ctx)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	end := failed(err)
	end.Again = fault.CodeOf(err).Info().Retryable || fault.CodeOf(err) == api.CodeNotRunning
	return end, nil
}

// putFiles writes the attachments into the workspace, each as a whole. It leaves a file that exists: an earlier holder
// of this turn has written it, because the directory is the turn's.
func (w *work) putFiles(ctx context.Context) error {
	if len(w.turn.Files) == 0 {
		return nil
	}
	workspace, err := w.handle.Files(ctx, files.WorkingDir)
	if err != nil {
		return err
	}
	defer workspace.Close()
	for i, f := range w.turn.Files {
		data, err := w.opts.Store.TurnRuns().File(ctx, w.turn.ID, i)
		if err != nil {
			return err
		}
		_, _, err = workspace.Write(ctx, f.Path, bytes.NewReader(data), files.WriteOptions{New: true})
		if err != nil && fault.CodeOf(err) != api.CodeFileExists {
			return fmt.Errorf("put attachment %s into the workspace: %w", f.Name, err)
		}
		w.at("file", w.turn.ID)
	}
	return nil
}

// maxHistory is the number of messages that a new session starts with.
const maxHistory = 40

// history returns the newest messages of the conversation for a new session, oldest first, without those of this turn.
// If they cannot be read, the agent starts without them and a status event reports it: an answer does not wait for the
// message store.
func (w *work) history(ctx context.Context) (history []api.Message, err error) {
	if w.turn.Resume {
		return nil, nil
	}
	brief, cancel := context.WithTimeout(ctx, historyTime)
	defer cancel()
	newest, _, err := w.opts.Transcript.List(brief, string(w.tenant), w.turn.Conversation, transcript.Page{Newest: true, Limit: maxHistory})
	for _, m := range slices.Backward(newest) {
		if m.TurnID != w.turn.ID && m.ID < w.turn.Message {
			history = append(history, m)
		}
	}
	if err == nil || ctx.Err() != nil {
		return history, err
	}
	w.opts.Log.WarnContext(ctx, "read the history; the agent starts without it", "error", err)
	return nil, w.say(ctx, api.TurnEvent{Type: api.EventStatus, Status: StatusNoHistory, Code: fault.CodeOf(err),
		Message: "the message store cannot be read; if it lasts, have it checked with 'berth doctor'"})
}

// StatusNoHistory is the status of an agent that starts without the conversation's earlier messages.
const StatusNoHistory = "history_unavailable"

// reportFiles appends an event if files of the sandbox were restored or lost since its last use.
func (w *work) reportFiles(ctx context.Context) error {
	now, err := w.handle.Record(ctx)
	if err != nil || w.before.ID == "" {
		return context.Cause(ctx)
	}
	notice := engine.Notice(w.before.ActiveAt, now)
	if w.before = now; notice == "" {
		return nil
	}
	return w.say(ctx, api.TurnEvent{Type: api.EventStatus, Status: StatusRestored, Message: notice})
}

// StatusRestored is the status of a turn whose sandbox was restored from a version or has lost changes.
const StatusRestored = "workspace_restored"

// asked returns the turn for the runtime.
func (w *work) asked(history []api.Message) agent.Turn {
	return agent.Turn{
		ID: w.turn.ID, Attempt: int(w.turn.Attempt), Prompt: w.turn.Prompt, Attachments: inSandbox(w.turn), Model: w.turn.Model,
		Agent: w.plan.Agent, Command: w.plan.Command, Permissions: w.plan.Permissions,
		Session: agent.Session{ID: w.turn.Session, Resume: w.turn.Resume}, History: history, Seconds: int64(w.opts.Timeout / time.Second),
		Servers: w.plan.Servers,
	}
}

// follow stores the agent's output until the agent ends.
func (w *work) follow(ctx context.Context, asked agent.Turn) (*agent.End, last, error) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		from := agent.Cursor{Offset: w.turn.ReadTo, State: w.state.State}
		read := func(ctx context.Context) iter.Seq2[agent.Step, error] {
			return w.redact.steps(w.runtime.Events(ctx, w.handle, asked, from))
		}
		for step, err := range gather(ctx, read) {
			if err != nil {
				if end := w.lost(ctx, err); end != nil {
					kept := w.redact.rest()
					return end, last{kept.Cursor.Offset, kept.Cursor.State, kept.Events}, nil
				}
				w.opts.Log.WarnContext(ctx, "read what the agent says; it is tried again", "error", err)
				if fault.CodeOf(err) == api.CodeWrongHost {
					return nil, last{}, leave(ctx, err)
				}
				break
			}
			w.bound(step.Events)
			if step.End != nil {
				return step.End, last{step.Cursor.Offset, step.Cursor.State, step.Events}, nil
			}
			if err := w.storeStep(ctx, asked, step); err != nil {
				return nil, last{}, err
			}
			pause = 100 * time.Millisecond
		}
		select {
		case <-ctx.Done():
			return nil, last{}, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// leave returns the error after a pause. The work on the turn then ends, and the machine that has the sandbox can take the
// turn when its server runs again. The pause limits how often this process takes the turn until then.
func leave(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(leavePause):
		return err
	}
}

const leavePause = 5 * time.Second

// storeStep stores one step. If the turn has written more than its limit, it cancels the turn and drops the events.
func (w *work) storeStep(ctx context.Context, asked agent.Turn, step agent.Step) error {
	if w.logged > w.opts.MaxLog {
		step.Events = nil
	}
	if err := w.append(ctx, step.Cursor.Offset, w.state.with(step.Cursor.State), step.Events); err != nil {
		return err
	}
	w.state.State = step.Cursor.State
	if w.logged > w.opts.MaxLog && !w.overLimit {
		w.overLimit = true
		w.background.Go(func() { w.cancel(ctx, asked) })
	}
	w.at("appended", w.turn.ID)
	return nil
}

// lost returns the end of a turn whose output can no longer be read because its instance is gone or was replaced. It
// returns nil if the error may be temporary.
func (w *work) lost(ctx context.Context, err error) *agent.End {
	sb, failed := w.handle.Record(ctx)
	gone := errors.Is(failed, fault.ErrDeleted) || errors.Is(failed, fault.ErrNotFound)
	switch {
	case failed != nil && !gone:
		return nil
	case gone, sb.Incarnation != w.state.Incarnation, sb.Instance == "", errors.Is(err, guest.ErrNoProcess):
	default:
		return nil
	}
	end := &agent.End{Status: api.TurnInterrupted, Code: api.CodeTurnInterrupted, Message: "the sandbox went away while the agent worked: " + err.Error(), Again: !gone}
	return end
}

// watchCancel waits until the turn is cancelled and then ends the agent's work.
func (w *work) watchCancel(ctx context.Context, asked agent.Turn) {
	defer w.hub.join(cancelTopics + asked.ID)()
	tick := time.NewTicker(max(w.opts.Poll, time.Second))
	defer tick.Stop()
	for {
		_, news := w.hub.since(cancelTopics+asked.ID, 0)
		if w.cancelled(ctx) {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-news:
		}
	}
	w.cancel(ctx, asked)
}

// thawEvery is the interval at which thawIfCancelled checks the sandbox.
const thawEvery = 500 * time.Millisecond

// thawIfCancelled thaws the sandbox of a cancelled turn until stop is called. A frozen sandbox does not answer
// requests, so a turn that waits for one could not end.
func (w *work) thawIfCancelled(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(thawEvery)
		defer tick.Stop()
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if !w.cancelled(ctx) || !w.handle.Frozen(ctx) {
				continue
			}
			if _, err := w.handle.Thaw(ctx); err != nil && ctx.Err() == nil {
				w.opts.Log.WarnContext(ctx, "thaw the sandbox of a turn that ends; it is tried again", "error", err)
			}
		}
	})
	return func() { cancel(); done.Wait() }
}

func (w *work) cancelled(ctx context.Context) bool {
	t, err := w.opts.Store.In(w.tenant).Turns().Get(ctx, w.lease.ID)
	return err == nil && !t.CancelAt.IsZero()
}

// cancelTime limits one attempt to end the turn's processes. The attempt continues after the agent has ended, because
// tools of the agent may still run.
const cancelTime = 30 * time.Second

// cancel tries to end the agent until it succeeds.
func (w *work) cancel(ctx context.Context, asked agent.Turn) {
	for {
		err := w.endAgent(ctx, asked)
		if err == nil || ctx.Err() != nil {
			return
		}
		w.opts.Log.WarnContext(ctx, "cancel the agent's work; it is tried again", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

func (w *work) endAgent(ctx context.Context, asked agent.Turn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	defer w.thawIfCancelled(ctx)()
	return w.runtime.Cancel(ctx, w.handle, asked)
}

// sweep ends the processes that the agent of a turn left running.
func (w *work) sweep(ctx context.Context) {
	if sb, err := w.handle.Record(ctx); err != nil || sb.State != sandbox.Running || w.runtime == nil || w.turn.Attempt == 0 {
		return
	}
	if err := w.endAgent(ctx, w.asked(nil)); err != nil {
		w.opts.Log.WarnContext(ctx, "end what the turn left running", "error", err)
	}
}
