package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/transcript/open"
)

// Fsck checks the consistency of the database and the message store. It changes nothing.
func Fsck(ctx context.Context, cfg *config.Loaded) (found api.Fsck, err error) {
	o := storeOptions(cfg, slog.New(slog.DiscardHandler))
	o.SkipMigrate = true
	db, err := store.Open(ctx, o)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	wrong, asked, err := db.Check(ctx)
	if err != nil {
		return found, err
	}
	messages, err := open.Store(ctx, cfg.MessageStore, db)
	if err != nil {
		return found, err
	}
	checked, err := chat.Check(ctx, db, messages)
	found = api.Fsck{
		Checks: asked, Conversations: checked.Conversations, Messages: checked.Messages, Undelivered: checked.Undelivered,
		Problems: append(wrong, checked.Problems...),
	}
	return found, err
}
