package berth

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/workspace"
	"github.com/berthdev/berth/internal/workspacesync"
)

// actor is the name of embedding programs in the history of sandboxes.
const actor = "go"

// Sandbox is a handle on one sandbox of one account. Any number of handles may exist for one sandbox, in any number
// of processes; each operation sees the effects of the others. It is safe for concurrent use.
//
// Operations that run or change something first start a sandbox that is stopped or terminated. Reading files does not
// start it.
type Sandbox struct {
	b            *Berth
	id           string
	account      Account
	scope        store.Scope
	model        atomic.Pointer[api.Sandbox]
	conversation atomic.Pointer[string]
}

// An Option sets a part of a new sandbox's specification. If the sandbox exists, its specification must agree.
type Option func(*options)

// options holds the options of one call of Berth.Sandbox.
type options struct{ spec sandbox.Spec }

// WithTemplate names the template.
func WithTemplate(name string) Option { return func(o *options) { o.spec.Template = name } }

// WithDriver names the driver.
func WithDriver(name string) Option { return func(o *options) { o.spec.Driver = name } }

// WithProfile names the size: lite, standard or full.
func WithProfile(name string) Option { return func(o *options) { o.spec.Profile = name } }

// WithEnv sets environment variables of every command in the sandbox.
func WithEnv(env map[string]string) Option { return func(o *options) { o.spec.Env = env } }

// WithMetadata sets the metadata.
func WithMetadata(metadata map[string]string) Option {
	return func(o *options) { o.spec.Metadata = metadata }
}

// Sandbox returns the sandbox with the id, which is a UUID of the program's choice ([NewID] makes one). It creates
// the sandbox if it does not exist, and checks that it belongs to the account. If the sandbox does not run, it is
// started: its newest saved version is restored, and the cold start hooks of its template run. Finally Sandbox checks
// that the sandbox answers.
//
// The errors are [ErrInvalidSandboxID], [ErrInvalidAccount] and [ErrInvalidConfig] for bad arguments,
// [ErrSandboxNotAccessible] for a sandbox that belongs to another account or does not answer,
// [ErrHookExecutionFailed], [ErrSandboxCreationFailed], and [ErrReconstructionFailed] for internal errors.
func (b *Berth) Sandbox(ctx context.Context, id string, account Account, opts ...Option) (*Sandbox, error) {
	const op = "open sandbox"
	scope, err := b.enter(ctx, &account)
	if err != nil {
		return nil, wrap(op, err)
	}
	if id, err = sandbox.ParseID(id); err != nil {
		return nil, wrapAs(op, err, ErrInvalidSandboxID)
	}
	var o options
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	if err := cmp.Or(sandbox.CheckEnv(o.spec.Env), sandbox.CheckMetadata(o.spec.Metadata)); err != nil {
		return nil, wrapAs(op, err, ErrInvalidConfig)
	}
	s := &Sandbox{b: b, id: id, account: account, scope: scope}
	if err := s.load(ctx, o.spec); err != nil {
		kind := kindOf(err)
		if kind == nil && fault.CodeOf(err) == api.CodeInternal && !contextEnded(err) {
			kind = ErrReconstructionFailed
		}
		return nil, wrapAs(op, err, kind)
	}
	return s, nil
}

// load creates and starts the sandbox if needed, and checks that it answers.
func (s *Sandbox) load(ctx context.Context, spec sandbox.Spec) error {
	record, _, err := s.b.system.Engine().Ensure(ctx, engine.Request{
		Owner: sandbox.Owner{Tenant: s.account.Tenant, Kind: sandbox.OwnerSandbox, ID: s.id}, ID: s.id, Spec: spec,
		Actor: actor, Account: s.account.ID, Within: s.account.ID,
	})
	if err != nil {
		return err
	}
	s.id = record.ID
	s.keep(record)
	return s.ping(ctx, s.b.system.Engine().HandleOn(record, actor))
}

// maxPings is the maximum number of pings to a sandbox that does not answer.
const maxPings = 5

// ping checks that the sandbox's helper answers. If it does not, ping tries again: when an instance has died, the
// driver notices it a moment later and the engine recovers the instance.
func (s *Sandbox) ping(ctx context.Context, h *engine.Handle) error {
	for attempt := 1; ; attempt++ {
		conn, err := h.Guest(ctx)
		if fault.CodeOf(err) == api.CodeUnsupported && err != nil { // a driver whose sandboxes run no commands
			return nil
		}
		if err != nil {
			return err
		}
		if err = errors.Join(conn.Ping(ctx), conn.Close()); err == nil {
			_, err = s.record(ctx) // the instance may have been replaced
			return err
		}
		select {
		case <-time.After(time.Duration(attempt) * 100 * time.Millisecond):
		case <-ctx.Done():
		}
		if attempt == maxPings || ctx.Err() != nil {
			return fault.Errorf("", api.CodeDriverUnreachable, "sandbox %s does not answer: %w", s.id, err)
		}
	}
}

// keep stores the newest record for Model.
func (s *Sandbox) keep(record sandbox.Sandbox) api.Sandbox {
	shown := engine.Show(record)
	s.model.Store(&shown)
	return shown
}

// record reads the sandbox's record. It fails if the sandbox does not belong to the account.
func (s *Sandbox) record(ctx context.Context) (sandbox.Sandbox, error) {
	if err := cmp.Or(s.b.usable(), checkContext(ctx)); err != nil {
		return sandbox.Sandbox{}, err
	}
	record, err := s.scope.ByID(ctx, s.id)
	if err == nil {
		s.keep(record)
	}
	return record, err
}

// handle returns a handle on the sandbox and its record.
func (s *Sandbox) handle(ctx context.Context) (*engine.Handle, sandbox.Sandbox, error) {
	record, err := s.record(ctx)
	if err != nil {
		return nil, record, err
	}
	return s.b.system.Engine().HandleOn(record, actor), record, nil
}

// runningHandle starts the sandbox if it does not run, and returns the same as handle.
func (s *Sandbox) runningHandle(ctx context.Context) (*engine.Handle, sandbox.Sandbox, error) {
	h, record, err := s.handle(ctx)
	if err == nil {
		if record, err = h.Sandbox(ctx); err == nil {
			s.keep(record)
		}
	}
	return h, record, err
}

// ID returns the sandbox's id.
func (s *Sandbox) ID() string { return sandbox.PublicID(s.id) }

// Account returns the account that the sandbox was opened for.
func (s *Sandbox) Account() Account { return s.account }

// Info reads the current state of the sandbox.
func (s *Sandbox) Info(ctx context.Context) (api.Sandbox, error) {
	record, err := s.record(ctx)
	if err != nil {
		return api.Sandbox{}, wrap("read sandbox", err)
	}
	return engine.Show(record), nil
}

// Model returns the sandbox as the last operation of s read it. It does not read it again.
func (s *Sandbox) Model() api.Sandbox { return *s.model.Load() }

// Volume returns the id of the instance whose volume holds the sandbox's files. The volume ends with the instance.
// The id is empty if there is no instance; the files are then in the newest saved version.
func (s *Sandbox) Volume(ctx context.Context) (string, error) {
	record, err := s.record(ctx)
	return string(record.Instance), wrap("read sandbox", err)
}

// SetConversation sets the conversation of later turns. Its id is a UUID of the program's choice; a conversation that
// does not exist is created with its first turn. An empty id selects the sandbox's default conversation.
func (s *Sandbox) SetConversation(id string) error {
	if id != "" {
		parsed, err := sandbox.ParseID(id)
		if err != nil {
			return wrapAs("set conversation", err, nil)
		}
		id = parsed
	}
	s.conversation.Store(&id)
	return nil
}

// Conversation returns the id that was set with SetConversation, or the empty string.
func (s *Sandbox) Conversation() string {
	if id := s.conversation.Load(); id != nil {
		return *id
	}
	return ""
}

// SyncFiles merges the versions that others saved to the same place into the workspace, and saves a new version if
// files have changed.
func (s *Sandbox) SyncFiles(ctx context.Context) (api.Synced, error) {
	const op = "sync files"
	h, record, err := s.runningHandle(ctx)
	if err != nil {
		return api.Synced{}, wrap(op, err)
	}
	syncer := s.b.system.Syncer()
	if !syncer.Saves(record) {
		return api.Synced{}, wrapAs(op, fault.Errorf("", api.CodeUnsupported, "the workspace of sandbox %s is not saved", s.id), ErrSyncFailed)
	}
	var result *workspace.Result
	record, err = h.Saving(ctx, op, func(ctx context.Context, record sandbox.Sandbox) (mark sandbox.SyncMark, err error) {
		mark, result, err = syncer.Sync(ctx, record, workspacesync.SyncOptions{})
		return mark, err
	})
	if err != nil {
		return api.Synced{}, wrapAs(op, workspacesync.WrapError(op, err), ErrSyncFailed)
	}
	s.keep(record)
	return workspacesync.Show(record, result), nil
}

// Stop ends all processes in the sandbox and keeps its files. The next operation that runs or changes something
// starts the sandbox again. While a turn runs, Stop fails with [ErrTurnRunning].
func (s *Sandbox) Stop(ctx context.Context) error {
	return s.end(ctx, "stop sandbox", (*engine.Handle).Stop)
}

// Terminate removes the sandbox's instance with its files. If save is true, it saves a last version first. The next
// operation makes a new instance with the newest version. While a turn runs, Terminate fails with [ErrTurnRunning].
func (s *Sandbox) Terminate(ctx context.Context, save bool) error {
	return s.end(ctx, "terminate sandbox", func(h *engine.Handle, ctx context.Context) (sandbox.Sandbox, error) {
		return h.Terminate(ctx, !save)
	})
}

func (s *Sandbox) end(ctx context.Context, op string, do func(*engine.Handle, context.Context) (sandbox.Sandbox, error)) error {
	h, _, err := s.handle(ctx)
	if err == nil {
		err = s.b.system.Chat().Clear(ctx, store.TenantID(s.account.Tenant), s.id, false, op)
	}
	if err == nil {
		var record sandbox.Sandbox
		if record, err = do(h, ctx); err == nil {
			s.keep(record)
		}
	}
	return wrap(op, err)
}

// Delete deletes the sandbox permanently; see [Berth.DeleteSandbox].
func (s *Sandbox) Delete(ctx context.Context, save bool) error {
	return s.b.DeleteSandbox(ctx, s.id, s.account, save)
}

// DeleteSandbox deletes a sandbox permanently. If save is true, a last version is saved first. DeleteSandbox does not
// start the sandbox. Running turns are cancelled. The id cannot be used again; saved versions are kept for the
// retention time.
func (b *Berth) DeleteSandbox(ctx context.Context, id string, account Account, save bool) error {
	const op = "delete sandbox"
	scope, err := b.enter(ctx, &account)
	if err != nil {
		return wrap(op, err)
	}
	if id, err = sandbox.ParseID(id); err != nil {
		return wrapAs(op, err, ErrInvalidSandboxID)
	}
	record, err := scope.ByID(ctx, id)
	if err == nil {
		err = b.system.Chat().Clear(ctx, store.TenantID(account.Tenant), record.ID, true, op)
	}
	if err == nil {
		_, err = b.system.Engine().Delete(ctx, account.Tenant, record.ID, actor, !save)
	}
	return wrap(op, err)
}

// Sandboxes yields the sandboxes of an account, newest first. An error ends the sequence.
func (b *Berth) Sandboxes(ctx context.Context, account Account) iter.Seq2[api.Sandbox, error] {
	const op = "list sandboxes"
	return func(yield func(api.Sandbox, error) bool) {
		scope, err := b.enter(ctx, &account)
		var page store.Page
		for err == nil {
			var records []sandbox.Sandbox
			records, page.After, err = scope.Sandboxes(ctx, store.Filter{}, page)
			for _, record := range records {
				if !yield(engine.Show(record), nil) {
					return
				}
			}
			if page.After == (store.Position{}) {
				break
			}
		}
		if err != nil {
			yield(api.Sandbox{}, wrap(op, err))
		}
	}
}
