package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/transcript/open"
)

// checkMessagesTimeout limits the check of the message store when a server starts.
const checkMessagesTimeout = 5 * time.Second

// openMessages opens the message store. If the store does not answer, the server starts anyway, because messages wait
// for it in the outbox. Any other error of the store, such as a refused login, is returned.
func (s *System) openMessages(ctx context.Context) (err error) {
	if s.messages, err = open.Store(ctx, s.cfg.MessageStore, s.store); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkMessagesTimeout)
	defer cancel()
	err = s.messages.Check(ctx)
	var e *fault.Error
	if err != nil && (s.stopOnly || errors.As(err, &e) && e.Retry) {
		s.log.Warn("messages cannot be stored now; they are kept until they can", "error", err)
		return nil
	}
	return err
}

// checkMessages checks whether the message store answers. It returns no check if messages are in the database. A store
// that does not answer is only a warning: prompts are accepted and answered without it.
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

// migrateMessages creates the table of the message store, if it uses one, and adds a line about it to the report.
func migrateMessages(ctx context.Context, cfg *config.Loaded, report string) (string, error) {
	more, err := open.Migrate(ctx, cfg.MessageStore)
	return strings.TrimSpace(report + "\n" + more), err
}
