package turn

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// runtime is how to talk to the template's agent.
func (s *Service) runtime(p Plan) (agent.Runtime, error) {
	if r := s.Runtimes[p.Runtime]; r != nil {
		return r, nil
	}
	return nil, sandbox.Errorf("find the agent's runtime", api.CodeUnknownRuntime, "there is no runtime %q; there are: %s",
		p.Runtime, strings.Join(slices.Sorted(maps.Keys(s.Runtimes)), ", "))
}

// attempt starts the agent, unless it was started, and stores what it says until it ends. An error means
// that this holder cannot go on; the turn can.
func (w *work) attempt(ctx context.Context) (*agent.End, last, error) {
	if end, err := w.prepare(ctx); end != nil || err != nil {
		return end, last{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w.heeding = sync.WaitGroup{}
	defer w.heeding.Wait()
	defer stop()
	asked := w.asked(nil)
	w.heeding.Go(func() { w.heed(ctx, asked) })
	return w.follow(ctx, asked)
}

// prepare makes the sandbox run and starts the agent in it. After a crash it first finds out what the last
// holder had done. An end says that the turn ends before it began.
func (w *work) prepare(ctx context.Context) (*agent.End, error) {
	var err error
	if w.plan, err = w.Plan(w.turn.Template); err == nil {
		w.runtime, err = w.Service.runtime(w.plan)
	}
	if err != nil {
		return failed(err), nil
	}
	if w.turn.Attempt > 0 && !w.unbegun(ctx) {
		return nil, nil
	}
	if !w.turn.CancelAt.IsZero() {
		return &agent.End{Status: api.TurnCancelled}, nil
	}
	if end := w.ready(ctx); end != nil || ctx.Err() != nil {
		return end, context.Cause(ctx)
	}
	if w.turn.Attempt == 0 {
		if err := w.firstAttempt(ctx); err != nil {
			return nil, err
		}
	}
	return w.start(ctx)
}

// unbegun says whether the attempt that is on record was never made: its holder died between the two. It is
// so only if the agent's process is not known in the very incarnation in which it would have been started.
func (w *work) unbegun(ctx context.Context) bool {
	sb, err := w.box.Record(ctx)
	if err != nil || sb.Incarnation != w.place.Incarnation || w.turn.ReadTo > 0 {
		return false
	}
	for _, err := range w.runtime.Events(ctx, w.box, w.asked(nil), agent.Cursor{}) {
		return errors.Is(err, guest.ErrNoProcess)
	}
	return false
}

// firstAttempt comes after the user's message was brought to where messages are kept, or is on its way.
func (w *work) firstAttempt(ctx context.Context) error {
	w.greet(ctx)
	c, err := w.Store.In(w.turn.Tenant).Conversation(ctx, w.turn.Conversation)
	if err != nil {
		return err
	}
	if c.Session == "" {
		return w.beginAttempt(ctx, store.NewID(), false, false)
	}
	return w.beginAttempt(ctx, c.Session, c.SessionTurns > 0, false)
}

// greetTime is how long a turn waits for its prompt to be stored before it goes on; it is kept anyway.
const greetTime = 2 * time.Second

// greet brings the user's message to where messages are kept, and runs the hooks for it.
func (w *work) greet(ctx context.Context) {
	brief, cancel := context.WithTimeout(ctx, greetTime)
	defer cancel()
	if err := w.Deliver(brief, w.turn); err != nil {
		w.Log.ErrorContext(ctx, "store message; it is kept and tried again", "message_id", w.turn.Message, "error", err)
	}
	if w.Hooks == nil {
		return
	}
	if d, err := w.data(ctx, asked(w.turn)); err == nil {
		w.Hooks.Message(ctx, d)
		w.remember(ctx, w.turn.Tenant, d)
	}
}

// ready makes the sandbox run, trying again what may be tried again.
func (w *work) ready(ctx context.Context) *agent.End {
	ctx, cancel := context.WithTimeout(ctx, w.Patience)
	defer cancel()
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		sb, err := w.box.Ready(ctx)
		if err == nil {
			w.hold(ctx)
			w.at("ready", w.turn.ID)
			return nil
		}
		var e *sandbox.Error
		if !errors.As(err, &e) || !e.Code.Info().Retryable && !e.Retry || w.cancelled(ctx) {
			return failed(err)
		}
		w.Log.WarnContext(ctx, "the turn waits for its sandbox", "state", sb.State, "error", err)
		select {
		case <-ctx.Done():
			return failed(err)
		case <-time.After(pause):
		}
	}
}

// failed is a turn's end by an error of ours.
func failed(err error) *agent.End {
	return &agent.End{Status: api.TurnFailed, Code: sandbox.CodeOf(err), Message: err.Error()}
}

// start starts the agent.
func (w *work) start(ctx context.Context) (*agent.End, error) {
	history, err := w.history(ctx)
	if err != nil {
		return nil, err
	}
	w.at("before-start", w.turn.ID)
	err = w.runtime.Start(ctx, w.box, w.asked(history))
	w.at("after-start", w.turn.ID)
	switch {
	case err == nil:
		return nil, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	end := failed(err)
	end.Again = sandbox.CodeOf(err).Info().Retryable || sandbox.CodeOf(err) == api.CodeNotRunning
	return end, nil
}

// history is the text that a new session begins with. An agent whose history cannot be read starts without it, and a
// status event says so: the answer to a prompt does not wait for the message store.
func (w *work) history(ctx context.Context) ([]api.Message, error) {
	if w.turn.Resume {
		return nil, nil
	}
	history, err := w.History(ctx, w.turn)
	if err == nil || ctx.Err() != nil {
		return history, err
	}
	w.Log.WarnContext(ctx, "read the history; the agent starts without it", "error", err)
	return nil, w.say(ctx, api.TurnEvent{Type: api.EventStatus, Status: StatusNoHistory, Code: sandbox.CodeOf(err),
		Message: "the messages so far cannot be read; the agent starts without them: " + err.Error()})
}

// StatusNoHistory is the status event of an agent that starts without the messages so far.
const StatusNoHistory = "history_unavailable"

// asked is the turn as its runtime knows it.
func (w *work) asked(history []api.Message) agent.Turn {
	return agent.Turn{
		ID: w.turn.ID, Attempt: int(w.turn.Attempt), Prompt: w.turn.Prompt, Model: w.turn.Model, Command: w.plan.Command,
		Session: agent.Session{ID: w.turn.Session, Resume: w.turn.Resume}, History: history, Seconds: int64(w.Timeout / time.Second),
		Servers: w.plan.Servers,
	}
}

// follow stores what the agent says until it ends.
func (w *work) follow(ctx context.Context, asked agent.Turn) (*agent.End, last, error) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		from := agent.Cursor{Offset: w.turn.ReadTo, State: w.place.State}
		read := func(ctx context.Context) iter.Seq2[agent.Step, error] {
			return w.runtime.Events(ctx, w.box, asked, from)
		}
		for step, err := range gather(ctx, read) {
			if err != nil {
				if end := w.lost(ctx, err); end != nil {
					return end, last{}, nil
				}
				w.Log.WarnContext(ctx, "read what the agent says; it is tried again", "error", err)
				break
			}
			if step.End != nil {
				return step.End, last{step.Cursor.Offset, step.Cursor.State, step.Events}, nil
			}
			if err := w.keep(ctx, asked, step); err != nil {
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

// keep stores one step. What is more than a turn may write ends the turn.
func (w *work) keep(ctx context.Context, asked agent.Turn, step agent.Step) error {
	if w.logged > w.MaxLog {
		step.Events = nil
	}
	if err := w.append(ctx, step.Cursor.Offset, w.place.with(step.Cursor.State), step.Events); err != nil {
		return err
	}
	w.place.State = step.Cursor.State
	if w.logged > w.MaxLog && !w.over {
		w.over = true
		w.heeding.Go(func() { w.cancel(ctx, asked) })
	}
	w.at("appended", w.turn.ID)
	return nil
}

// lost is the turn's end when what the agent wrote cannot be had any more: its instance is gone, or is
// another one. Nil means that it may be only for now.
func (w *work) lost(ctx context.Context, err error) *agent.End {
	sb, failed := w.box.Record(ctx)
	gone := errors.Is(failed, sandbox.ErrDeleted) || errors.Is(failed, sandbox.ErrNotFound)
	switch {
	case failed != nil && !gone:
		return nil
	case gone, sb.Incarnation != w.place.Incarnation, sb.Instance == "", errors.Is(err, guest.ErrNoProcess):
	default:
		return nil
	}
	end := &agent.End{Status: api.TurnInterrupted, Code: api.CodeTurnInterrupted, Message: "the sandbox went away while the agent worked: " + err.Error(), Again: !gone}
	return end
}

// heed ends the agent's work when that is asked for.
func (w *work) heed(ctx context.Context, asked agent.Turn) {
	defer w.hub.join(cancels + asked.ID)()
	tick := time.NewTicker(max(w.Poll, time.Second))
	defer tick.Stop()
	for {
		_, news := w.hub.since(cancels+asked.ID, 0)
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

func (w *work) cancelled(ctx context.Context) bool {
	t, err := w.Store.In(w.tenant).Turn(ctx, w.lease.ID)
	return err == nil && !t.CancelAt.IsZero()
}

// cancelTime bounds one try to end what a turn runs. It goes on when the agent has ended: its tools may not
// have.
const cancelTime = 30 * time.Second

// cancel makes the agent end, until it has.
func (w *work) cancel(ctx context.Context, asked agent.Turn) {
	for {
		err := w.endAgent(ctx, asked)
		if err == nil || ctx.Err() != nil {
			return
		}
		w.Log.WarnContext(ctx, "cancel the agent's work; it is tried again", "error", err)
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
	return w.runtime.Cancel(ctx, w.box, asked)
}

// sweep ends what an agent that did not end by itself left running.
func (w *work) sweep(ctx context.Context) {
	if sb, err := w.box.Record(ctx); err != nil || sb.State != sandbox.Running || w.runtime == nil || w.turn.Attempt == 0 {
		return
	}
	if err := w.endAgent(ctx, w.asked(nil)); err != nil {
		w.Log.WarnContext(ctx, "end what the turn left running", "error", err)
	}
}
