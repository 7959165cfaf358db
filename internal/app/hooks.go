package app

import (
	"context"
	"errors"

	"github.com/berthdev/berth/internal/blob/s3blob"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/outbox"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/template/program"
)

// openHooks creates the outbox and the runner of hooks.
func (s *System) openHooks(context.Context) error {
	s.outbox = outbox.New(s.store.Outbox(), s.log)
	webhooks := hook.NewWebhooks(hook.WebhookOptions{Of: s.templates.Hooks, Enqueue: s.enqueue, Answered: s.answered, Log: s.log})
	s.outbox.Register(hook.KindWebhook, webhooks.Deliver)
	s.hooks = hook.New(hook.Options{
		Of: s.templates.Hooks, S3: s.s3, Webhooks: webhooks, Log: s.log, Metrics: s.metrics, Remember: s.remember, Conversation: conversationOf(s.store),
		Builtins: map[string]hook.Func{hook.Push: s.pushAgain, hook.Log: s.logEnd, hook.Clone: hook.CloneRepository},
	})
	return program.Prepare(s.cfg.DataDir) // so that templates can mount programs that are not installed yet
}

// enqueue puts a message into the outbox and wakes its delivery.
func (s *System) enqueue(ctx context.Context, tenant string, m store.Message) error {
	err := s.store.In(store.TenantID(tenant)).Outgoing().Enqueue(ctx, m)
	s.outbox.Wake(m.Kind)
	return err
}

// answered stores the metadata and stats of a webhook's answer.
func (s *System) answered(ctx context.Context, m store.Message, d *hook.Data) error {
	return s.store.In(m.Tenant).StoreHookAnswer(ctx, m, store.HookAnswer{
		Sandbox: d.Sandbox.ID, Metadata: d.Metadata(), Conversation: d.ConversationID, Stats: d.Stats(),
	})
}

// remember stores the metadata and stats that hooks of a start or an end set.
func (s *System) remember(ctx context.Context, d *hook.Data) error {
	in, err := s.store.In(store.TenantID(d.Sandbox.Tenant)), error(nil)
	if metadata := d.Metadata(); len(metadata) > 0 {
		err = in.AddMetadata(ctx, d.Sandbox.ID, metadata)
	}
	if stats := d.Stats(); len(stats) > 0 {
		err = errors.Join(err, in.SetExtra(ctx, d.ConversationID, stats))
	}
	return err
}

// conversationOf returns a function that returns the id of the conversation that a sandbox was made for.
func conversationOf(db *store.DB) func(context.Context, sandbox.Sandbox) (string, error) {
	return func(ctx context.Context, sb sandbox.Sandbox) (string, error) {
		return db.In(store.TenantID(sb.Owner.Tenant)).Threads().ConversationOf(ctx, sb.ID)
	}
}

// s3 returns the location of the versions of a sandbox's workspace, or nil if the workspace is not saved.
func (s *System) s3(sb sandbox.Sandbox) *hook.S3 {
	if !s.syncer.Saves(sb) {
		return nil
	}
	w := s.templates.Workspace(sb)
	return &hook.S3{Bucket: s.templates.Bucket(), Prefix: s.keyPrefix() + w.Prefix, InitFromS3: !w.Empty}
}

// keyPrefix returns the prefix of all of Berth's keys in the bucket.
func (s *System) keyPrefix() string {
	o, err := s3blob.Parse(storeAddress(s.cfg))
	if err != nil || o.Prefix == "" {
		return ""
	}
	return o.Prefix + "/"
}

// logEnd is the built-in hook that logs the end of an instance.
func (s *System) logEnd(ctx context.Context, d *hook.Data) error {
	s.log.InfoContext(ctx, "sandbox ends", "template", d.Sandbox.Template, "incarnation", d.Sandbox.Incarnation, "version", d.Version)
	return nil
}
