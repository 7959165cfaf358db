package slack

import (
	"context"
	"errors"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
)

// mostDelay is the time for which a prompt that Berth cannot take is tried again.
const mostDelay = 15 * time.Minute

// prompt answers a message with a turn.
func (a *answer) prompt(ctx context.Context) error {
	if a.r.State == store.SlackWaiting {
		a.r.State = store.SlackRunning
		if err := a.save(ctx); err != nil {
			return err
		}
	}
	if len(a.p.Parts) == 0 || a.p.Parts[0].TS == "" {
		c := working(a.buttons)
		c.stream = a.mayStream()
		if err := a.put(ctx, 0, c); err != nil {
			return err
		}
	}
	if !a.p.Posted {
		err := a.sendPrompt(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil, isLost(err):
			return err
		case fault.CodeOf(err).Info().Retryable && time.Since(a.r.CreatedAt) < mostDelay:
			return err
		default:
			return a.say(ctx, failureText("I could not begin", err), failed)
		}
	}
	a.at("slack-turn-posted", a.r.ID)
	v, err := a.follow(ctx)
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, fault.ErrNotFound) {
			return a.say(ctx, failureText("I lost this", err), failed)
		}
		return err
	}
	return a.finish(ctx, v)
}

// sendPrompt sends the prompt to the thread. The turn has the reply's id, so that there is one turn however often it is sent.
func (a *answer) sendPrompt(ctx context.Context) error {
	files, dropped, err := a.fetchAll(ctx, a.q.Files)
	if err != nil {
		return err
	}
	a.p.Dropped = dropped
	text := a.q.Text
	if text == "" {
		text = "Look at the attached files."
	}
	if len(dropped) > 0 {
		text += "\n\n(Not attached: " + strings.Join(dropped, "; ") + ")"
	}
	err = a.opts.Threads.Post(ctx, Prompt{
		Thread: a.thread(), Turn: a.r.ID, Template: a.w.Template, Text: text, Files: files, User: a.person(ctx, a.w, a.q.User), Accounts: a.w.Accounts,
	})
	if err != nil {
		return err
	}
	a.p.Posted = true
	return a.save(ctx)
}

const watchEvery = 500 * time.Millisecond

// follow shows the progress of the turn until it has ended.
func (a *answer) follow(ctx context.Context) (*view, error) {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	events, ended := make(chan api.TurnEvent), make(chan error, 1)
	go func() { ended <- a.readEvents(inner, events) }()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	v := newView()
	live := live{a: a, began: time.Now()}
	cancelled := false
	for {
		select {
		case e := <-events:
			v.add(e)
			if e.Type == api.EventTurnFinished || e.Type == api.EventResync {
				return v, nil
			}
		case err := <-ended:
			if err == nil {
				err = errors.New("the events of the turn ended early")
			}
			return v, err
		case <-tick.C:
			stop, err := a.watch(ctx)
			if err != nil {
				return v, err
			}
			if stop && !cancelled {
				if err := a.opts.Threads.Cancel(ctx, string(a.r.Tenant), a.r.ID, "stopped in Slack"); err != nil {
					return v, err
				}
				cancelled = true
			}
			if err := live.show(ctx, v); err != nil {
				return v, err
			}
		}
	}
}

// readEvents sends the events of the turn to a channel.
func (a *answer) readEvents(ctx context.Context, to chan<- api.TurnEvent) error {
	for e, err := range a.opts.Threads.Events(ctx, string(a.r.Tenant), a.r.ID) {
		if err != nil {
			return err
		}
		select {
		case to <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// live shows the answer while the turn runs, at most once a second and more rarely in a long turn.
type live struct {
	a      *answer
	began  time.Time
	next   time.Time
	shown  string // by an edit
	stream stream
}

func (l *live) show(ctx context.Context, v *view) error {
	if time.Now().Before(l.next) {
		return nil
	}
	if l.a.streaming {
		return l.append(ctx, v)
	}
	return l.edit(ctx, v)
}

// wait says that the view is shown now.
func (l *live) wait(v *view) {
	now := time.Now()
	l.next = now.Add(min(time.Second+now.Sub(l.began)/30, 5*time.Second))
	if v.hasText() {
		l.a.at("slack-streamed", l.a.r.ID)
	}
}

func (l *live) edit(ctx context.Context, v *view) error {
	c, mark := v.live(l.a.buttons)
	if mark == l.shown {
		return nil
	}
	l.next = time.Now().Add(time.Second)
	p := &l.a.p.Parts[0]
	err := once(ctx, func(ctx context.Context) error { return l.a.edit(ctx, p, c) })
	var limited *slackgo.RateLimitedError
	switch {
	case err == nil:
		l.shown = mark
		l.wait(v)
		return l.a.edited(ctx, p)
	case errors.As(err, &limited):
		l.next = time.Now().Add(limited.RetryAfter)
	case errorCode(err) == "message_not_found":
		return l.a.put(ctx, 0, c)
	case isLost(err):
		return err
	}
	return nil
}

// finish writes the whole answer and uploads what the turn has made.
func (a *answer) finish(ctx context.Context, v *view) error {
	reaction := failed
	if v.end.Status == api.TurnCompleted {
		reaction = succeeded
	}
	parts := v.final(a.buttons, a.p.Dropped)
	for n, c := range parts {
		if err := a.put(ctx, n, c); err != nil {
			return err
		}
	}
	a.at("slack-finished", a.r.ID)
	var left []string
	for _, f := range v.end.Artifacts {
		problem, err := a.upload(ctx, f)
		if err != nil {
			return err
		}
		if problem != "" {
			left = append(left, problem)
		}
	}
	if len(left) > 0 {
		text := "_Not uploaded:_ " + escape(strings.Join(left, "; "))
		if err := a.put(ctx, len(parts), content{text: text, blocks: sections(text)}); err != nil {
			return err
		}
	}
	return a.end(ctx, reaction)
}
