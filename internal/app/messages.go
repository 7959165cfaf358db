package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/transcript/open"
)

// checkMessagesFor bounds the trial of the message store when a server starts.
const checkMessagesFor = 5 * time.Second

// openMessages opens where messages are kept. A store that does not answer just now keeps no server from
// starting, because messages wait for it in the outbox; one that is not there, or not for us, does.
func (s *System) openMessages(ctx context.Context) (err error) {
	if s.messages, err = open.Store(ctx, s.cfg.MessageStore, s.Store); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkMessagesFor)
	defer cancel()
	err = s.messages.Check(ctx)
	var e *sandbox.Error
	if err != nil && (s.leaving || errors.As(err, &e) && e.Retry) {
		s.log.Warn("messages cannot be stored now; they are kept until they can", "error", err)
		return nil
	}
	return err
}

// checkMessages looks whether the message store answers. Nothing is checked where the database is the store.
// One that does not answer is a warning: prompts are accepted and answered without it.
func (s *System) checkMessages(ctx context.Context) []api.Check {
	if s.cfg.MessageStore == "" {
		return nil
	}
	check := api.Check{Name: "message store", Status: "ok"}
	if err := s.messages.Check(ctx); err != nil {
		check.Status, check.Detail = "warning", err.Error()
		check.Fix = "Prompts are answered; messages are kept and delivered when the store answers. 'berth doctor' on the server says more."
	}
	return []api.Check{check}
}

// migrateMessages makes what the message store needs, and adds what it did to a report.
func migrateMessages(ctx context.Context, cfg *config.Loaded, report string) (string, error) {
	more, err := open.Migrate(ctx, cfg.MessageStore)
	return strings.TrimSpace(report + "\n" + more), err
}
