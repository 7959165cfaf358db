package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/transcript"
	"github.com/berthdev/berth/internal/transcript/open"
)

// Time limits and interval of the checks of the message store.
const (
	checkMessagesAtStart = 2 * time.Second // a start waits at most so long, from the beginning of the check
	checkMessagesFor     = 10 * time.Second
	checkMessagesOften   = 3 * time.Second
)

// messageCheck checks a message store in the background until it answers, so that nothing waits for a store that does
// not.
type messageCheck struct {
	store transcript.Store
	log   *slog.Logger
	end   context.CancelFunc
	ended chan struct{}
	first chan struct{} // closed after the first check
	begun time.Time

	mu  sync.Mutex
	why error // error of the last check; nil once the store has answered
}

// newMessageCheck begins to check the store.
func newMessageCheck(ctx context.Context, store transcript.Store, log *slog.Logger) *messageCheck {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	c := &messageCheck{store: store, log: log, end: end, ended: make(chan struct{}), first: make(chan struct{}), begun: time.Now()}
	c.why = &fault.Error{Op: "check message store", Code: api.CodeMessageStore, Retry: true, Err: errors.New("it has not answered since the server started")}
	go c.run(ctx)
	return c
}

func (c *messageCheck) run(ctx context.Context) {
	defer close(c.ended)
	refused := false
	for failures := 0; ; failures++ {
		err := c.check(ctx)
		if ctx.Err() != nil {
			return
		}
		if failures == 0 {
			close(c.first)
		}
		if err == nil {
			if failures > 0 {
				c.log.Info("the message store answers; messages are delivered again")
			}
			return
		}
		if failures > 0 && !refused && !retryable(err) {
			c.log.Error("the message store refuses messages; they are kept until it takes them", "error", err, "hint", hint(err))
			refused = true
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(checkMessagesOften):
		}
	}
}

func (c *messageCheck) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkMessagesFor)
	defer cancel()
	err := c.store.Check(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.why = err
	return err
}

// down returns why messages cannot be stored, or nil once the store has answered.
func (c *messageCheck) down() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// Close ends the check.
func (c *messageCheck) Close() error {
	c.end()
	<-c.ended
	return nil
}

// openMessages opens the message store and begins to check it, while the other parts are opened. A System that only
// stops sandboxes does not need it.
func (s *System) openMessages(ctx context.Context) (err error) {
	if s.messages, err = open.Store(ctx, s.cfg.MessageStore, s.store); err != nil || s.cfg.MessageStore == "" || s.stopOnly {
		return err
	}
	s.messageCheck = newMessageCheck(ctx, s.messages, s.log)
	s.closers = append(s.closers, s.messageCheck)
	return nil
}

// await waits a moment for the message store. If it does not answer, the server starts anyway, because messages wait
// for it in the outbox. Any other error, such as a refused login, is returned.
func (c *messageCheck) await(ctx context.Context) error {
	if c == nil {
		return nil
	}
	select {
	case <-c.first:
	case <-time.After(time.Until(c.begun.Add(checkMessagesAtStart))):
	case <-ctx.Done():
		return ctx.Err()
	}
	err := c.down()
	if err != nil && !retryable(err) {
		return err
	}
	if err != nil {
		c.log.Warn("messages cannot be stored now; they are kept until they can", "error", err)
	}
	return nil
}

// retryable reports whether a later attempt may succeed where err was returned.
func retryable(err error) bool {
	var e *fault.Error
	return errors.As(err, &e) && e.Retry
}

// hint returns the hint of an error, or an empty text.
func hint(err error) string {
	var e *fault.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

// report returns the check of the message store for /readyz, or none if messages are in the database. A store that does
// not answer is only a warning: prompts are accepted and answered without it.
func (c *messageCheck) report(ctx context.Context) []api.Check {
	if c == nil {
		return nil
	}
	check := api.Check{Name: "message store", Status: "ok"}
	err := c.down()
	if err == nil {
		err = c.store.Check(ctx)
	}
	if err != nil {
		check.Status, check.Detail = "warning", err.Error()
		check.Fix = "Prompts are answered; messages are kept and delivered when the store answers. 'berth doctor' on the server says more."
		if text := hint(err); text != "" && !retryable(err) {
			check.Fix = "Prompts are answered, and messages are kept until they can be delivered. " + text
		}
	}
	return []api.Check{check}
}

// migrateMessages creates the table of the message store, if it uses one, and adds a line about it to the report.
func migrateMessages(ctx context.Context, cfg *config.Loaded, report string) (string, error) {
	more, err := open.Migrate(ctx, cfg.MessageStore)
	return strings.TrimSpace(report + "\n" + more), err
}
