package slack

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	slackgo "github.com/slack-go/slack"

	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
)

// afterError is the pause before a thread whose work failed is taken again.
const afterError = 2 * time.Second

// hold answers the messages of a thread if no other process does.
func (s *Service) hold(ctx context.Context, thread string) {
	taken := time.Now()
	grant, err := s.opts.Store.Leases().Lease(ctx, store.LeaseSlack, thread, s.opts.Holder)
	if err != nil || !grant.OK {
		return
	}
	held, release := store.RenewLoop(ctx, s.opts.Store.Leases(), grant.Lease, s.opts.Store.LeaseTTL(), taken)
	err = s.answerAll(held, grant.Lease)
	_ = release()
	if err == nil || ctx.Err() != nil {
		return
	}
	s.opts.Log.WarnContext(ctx, "answer in Slack; it is tried again", "thread", thread, "error", err)
	select {
	case <-ctx.Done():
	case <-time.After(afterError):
	}
}

// answerAll answers the messages of a thread, one after the other. One that was begun comes first.
func (s *Service) answerAll(ctx context.Context, l store.Lease) error {
	for {
		open, err := s.slack.OpenReplies(ctx, l.ID)
		if err != nil || len(open) == 0 {
			return err
		}
		r := open[0]
		for _, o := range open {
			if o.State == store.SlackRunning {
				r = o
				break
			}
		}
		a, err := s.begin(ctx, l, r)
		if err == nil {
			err = a.answer(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// answer is the work on the answer to one message.
type answer struct {
	*Service
	lease store.Lease
	w     store.SlackWorkspace
	web   *slackgo.Client
	r     store.SlackReply
	q     request
	p     progress
	buttons

	streaming bool // this process has written all of the stream that is the answer
}

// progress is what was done in Slack, as it is stored.
type progress struct {
	Notice  post              `json:"notice,omitzero"` // says that the message waits
	Parts   []post            `json:"parts,omitempty"` // the messages of the answer
	Posted  bool              `json:"posted,omitempty"`
	Dropped []string          `json:"dropped,omitempty"` // attachments that the agent did not get, with the reasons
	Uploads map[string]upload `json:"uploads,omitempty"` // by path and content
	Failure string            `json:"failure,omitempty"` // why the answer was given up
}

// post is a message that is posted once.
type post struct {
	Tried  int    `json:"tried,omitempty"`  // its attempts, the last of which may have succeeded
	TS     string `json:"ts,omitempty"`     // empty: it is not known to be there
	Gone   bool   `json:"gone,omitempty"`   // it was removed
	Stream bool   `json:"stream,omitempty"` // it is a stream, which may go on
}

// upload is a file that is uploaded once.
type upload struct {
	File string `json:"file,omitempty"` // Slack's id of the uploaded file, which may be shared already
	Done bool   `json:"done,omitempty"`
}

func (s *Service) begin(ctx context.Context, l store.Lease, r store.SlackReply) (*answer, error) {
	a := &answer{Service: s, lease: l, r: r}
	if err := json.Unmarshal(r.Request, &a.q); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(r.Progress, &a.p); err != nil {
		return nil, err
	}
	w, err := s.slack.Workspace(ctx, r.Team)
	if err != nil && !errors.Is(err, fault.ErrNotFound) {
		return nil, err
	}
	a.w, a.web, a.buttons = w, s.api(w), buttons{r.ID}
	return a, nil
}

func (a *answer) thread() Thread {
	return Thread{Tenant: string(a.r.Tenant), Workspace: a.r.Team, Key: a.q.Key, Channel: a.r.Channel}
}

// save records the progress.
func (a *answer) save(ctx context.Context) (err error) {
	if a.r.Progress, err = json.Marshal(a.p); err != nil {
		return err
	}
	return a.slack.Save(ctx, a.lease, a.r)
}

// done records that nothing remains to be done.
func (a *answer) done(ctx context.Context) error {
	a.r.State = store.SlackDone
	return a.save(ctx)
}

// answer does all that is left to do for a message.
func (a *answer) answer(ctx context.Context) error {
	err := a.do(ctx)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case isLost(err):
		return a.giveUp(ctx, err)
	}
	return err
}

// giveUp ends work on an answer that has no place any more.
func (a *answer) giveUp(ctx context.Context, cause error) error {
	a.opts.Log.WarnContext(ctx, "an answer cannot be written to Slack", "reply", a.r.ID, "team", a.r.Team, "channel", a.r.Channel, "error", cause)
	if refusal(cause) != "" {
		a.fail(ctx, a.r.Team, cause)
	}
	if a.p.Posted {
		if err := a.opts.Threads.Cancel(ctx, string(a.r.Tenant), a.r.ID, "its answer cannot be written to Slack"); err != nil {
			return err
		}
	}
	a.p.Failure = cause.Error()
	return a.done(ctx)
}

func (a *answer) do(ctx context.Context) error {
	if a.w.Team == "" || a.w.Problem != nil { // the workspace was disconnected
		return a.giveUp(ctx, errors.Join(errDisconnected, a.w.Problem))
	}
	if a.r.Cancelled && !a.p.Posted {
		return a.drop(ctx)
	}
	if err := a.react(ctx, seen, true); err != nil {
		return err
	}
	if err := a.remove(ctx, &a.p.Notice); err != nil {
		return err
	}
	switch a.r.Kind {
	case kindStop:
		return a.stop(ctx)
	case kindHelp:
		return a.say(ctx, helpText, succeeded)
	}
	return a.prompt(ctx)
}

var errDisconnected = errors.New("the workspace is not connected")

// drop ends a message that was deleted or stopped before its turn.
func (a *answer) drop(ctx context.Context) error {
	if len(a.p.Parts) > 0 {
		return a.say(ctx, "_Stopped._", failed)
	}
	if err := a.remove(ctx, &a.p.Notice); err != nil {
		return err
	}
	if err := a.react(ctx, seen, false); err != nil {
		return err
	}
	return a.done(ctx)
}

// helpText answers a message without a text.
const helpText = "Hello. Write me what to do, in this thread or in a direct message; attach files if they help. `stop` ends what I do."

// stop stops the sandbox of the thread. The turns before it have ended: they were cancelled when the message came.
func (a *answer) stop(ctx context.Context) error {
	if err := a.opts.Threads.Stop(ctx, a.thread()); err != nil {
		if passes(err) {
			return err
		}
		return a.say(ctx, failureText("I could not stop", err), failed)
	}
	return a.say(ctx, "Stopped. My files are kept, and the next message in this thread wakes me up.", succeeded)
}

// say answers with one text.
func (a *answer) say(ctx context.Context, text, reaction string) error {
	if err := a.put(ctx, 0, content{text: text, blocks: sections(text)}); err != nil {
		return err
	}
	return a.end(ctx, reaction)
}

// end replaces the reaction to the message and records the end.
func (a *answer) end(ctx context.Context, reaction string) error {
	if err := a.react(ctx, reaction, true); err != nil {
		return err
	}
	if err := a.react(ctx, seen, false); err != nil {
		return err
	}
	return a.done(ctx)
}

// watch looks at the other messages of the thread: it says that they wait. It reports whether this message was
// cancelled.
func (a *answer) watch(ctx context.Context) (cancelled bool, err error) {
	open, err := a.slack.OpenReplies(ctx, a.lease.ID)
	if err != nil {
		return false, err
	}
	for _, r := range open {
		switch {
		case r.ID == a.r.ID:
			cancelled = r.Cancelled
		case r.State == store.SlackWaiting && r.Kind == kindPrompt && !r.Cancelled:
			other, err := a.begin(ctx, a.lease, r)
			if err != nil {
				return cancelled, err
			}
			if other.p.Notice.TS != "" || other.p.Notice.Gone {
				continue
			}
			if err := other.notice(ctx); err != nil && !isLost(err) {
				return cancelled, err
			}
		}
	}
	return cancelled, nil
}

// notice says that the message waits.
func (a *answer) notice(ctx context.Context) error {
	if err := a.react(ctx, seen, true); err != nil {
		return err
	}
	const text = "_Queued: I answer this after the message before it._"
	return a.postOnce(ctx, &a.p.Notice, "notice", content{text: text, blocks: sections(text)})
}
