package app

import (
	"context"
	"errors"

	"github.com/berthdev/berth/internal/blob/s3blob"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/outbox"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/template/program"
)

// openHooks makes the outbox and what runs the hooks of templates.
func (s *System) openHooks(metrics *telemetry.Metrics) error {
	s.Outbox = outbox.New(s.Store, s.log)
	webhooks := &hook.Webhooks{Of: s.templates.Hooks, Enqueue: s.enqueue, Answered: s.answered, Log: s.log}
	s.Outbox.Register(hook.KindWebhook, webhooks.Deliver)
	s.Hooks = &hook.Runner{
		Of: s.templates.Hooks, S3: s.s3, Drivers: s.drivers, Webhooks: webhooks, Log: s.log, Metrics: metrics, Remember: s.remember,
		Command: func(sb sandbox.Sandbox, cmd guest.Cmd) guest.Cmd {
			return s.Engine.HandleOn(sb, "hook").Command(sb, cmd)
		},
		Changed:  func(ctx context.Context, sb sandbox.Sandbox) { s.Engine.Changed(ctx, sb) },
		Builtins: map[string]hook.Func{hook.Push: s.pushAgain, hook.Log: s.logEnd, hook.Clone: hook.CloneRepository},
	}
	return program.Prepare(s.cfg.DataDir) // so that templates can mount what is not installed yet
}

// enqueue puts something into the outbox and has it delivered soon.
func (s *System) enqueue(ctx context.Context, tenant string, m store.Message) error {
	err := s.Store.In(store.TenantID(tenant)).Enqueue(ctx, m)
	s.Outbox.Wake(m.Kind)
	return err
}

// answered stores what a webhook's answer sets.
func (s *System) answered(ctx context.Context, m store.Message, d *hook.Data) error {
	return s.Store.In(m.Tenant).TakeAnswer(ctx, m, store.HookAnswer{
		Sandbox: d.Sandbox.ID, Metadata: d.Metadata(), Conversation: d.ConversationID, Stats: d.Stats(),
	})
}

// remember stores what the hooks of a start or an end set.
func (s *System) remember(ctx context.Context, d *hook.Data) error {
	in, err := s.Store.In(store.TenantID(d.Sandbox.Tenant)), error(nil)
	if metadata := d.Metadata(); len(metadata) > 0 {
		err = in.AddMetadata(ctx, d.Sandbox.ID, metadata)
	}
	if stats := d.Stats(); len(stats) > 0 {
		err = errors.Join(err, in.SetExtra(ctx, d.ConversationID, stats))
	}
	return err
}

// s3 is where the versions of a sandbox's workspace are, if it is saved.
func (s *System) s3(sb sandbox.Sandbox) *hook.S3 {
	if !s.keeper.Saves(sb) {
		return nil
	}
	w := s.templates.Workspace(sb)
	return &hook.S3{Bucket: s.templates.Bucket, Prefix: s.keyPrefix() + w.Prefix, InitFromS3: !w.Empty}
}

// keyPrefix is below which all of Berth's keys are in the bucket.
func (s *System) keyPrefix() string {
	o, err := s3blob.Parse(storeAddress(s.cfg))
	if err != nil || o.Prefix == "" {
		return ""
	}
	return o.Prefix + "/"
}

// logEnd says that an instance ends: the hook before it does.
func (s *System) logEnd(ctx context.Context, d *hook.Data) error {
	s.log.InfoContext(ctx, "sandbox ends", "template", d.Sandbox.Template, "incarnation", d.Sandbox.Incarnation, "version", d.Version)
	return nil
}
