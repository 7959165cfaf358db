package engine

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/sandbox"
)

// The errors of a Service by name, for errors.Is. The error itself says more.
var (
	ErrInvalidSandboxID      = errors.New("invalid sandbox id")
	ErrInvalidAccount        = errors.New("invalid account")
	ErrInvalidConfig         = errors.New("invalid config")
	ErrSandboxNotRunning     = errors.New("sandbox not running")
	ErrSandboxNotAccessible  = errors.New("sandbox not accessible")
	ErrSandboxCreationFailed = errors.New("sandbox creation failed")
	ErrReconstructionFailed  = errors.New("reconstruction failed")
	ErrStateUpdateFailed     = errors.New("state update failed")
	ErrHookExecutionFailed   = errors.New("hook execution failed")
	ErrSyncFailed            = errors.New("sync failed")
)

// names are the codes that each named error stands for, the hook's and the sync's aside: those are
// named where they happen.
var names = []struct {
	is    error
	codes []api.Code
}{
	{ErrInvalidSandboxID, []api.Code{api.CodeInvalidID}},
	{ErrInvalidConfig, []api.Code{api.CodeUnknownTemplate, api.CodeUnknownDriver, api.CodeUnknownProfile, api.CodeSpecMismatch, api.CodeInvalidRequest}},
	{ErrSandboxNotRunning, []api.Code{api.CodeNotRunning, api.CodeUnhealthy}},
	{ErrSandboxNotAccessible, []api.Code{api.CodeDriverUnreachable, api.CodeWrongHost, api.CodeNotFound, api.CodeDeleted}},
	{ErrSandboxCreationFailed, []api.Code{api.CodeCreateFailed, api.CodeDriverRefused, api.CodeQuotaExceeded}},
	{ErrReconstructionFailed, []api.Code{api.CodeInternal}},
	{ErrStateUpdateFailed, []api.Code{api.CodeStale, api.CodeBusy, api.CodeStoreUnavailable, api.CodeTimeout}},
}

// named is an error that also answers to a name.
type named struct {
	error
	is error
}

func (n *named) Is(target error) bool { return target == n.is }
func (n *named) Unwrap() error        { return n.error }

// name adds to an error the name that it has by its code, unless it has one.
func name(err error) error {
	if err == nil || errors.As(err, new(*named)) {
		return err
	}
	code := sandbox.CodeOf(err)
	for _, n := range names {
		if slices.Contains(n.codes, code) {
			return &named{err, n.is}
		}
	}
	return err
}

// Service is one sandbox for one account, opened once and then used without further context. Every
// operation makes the sandbox run first where it must run; a terminated one comes back with the same
// specification. Any number of services on one sandbox may exist, in any number of processes.
type Service struct {
	*Handle
	Account      string
	conversation atomic.Pointer[string]
}

// Opening says which sandbox to open, for whom.
type Opening struct {
	Tenant    string
	SandboxID string // a UUID; unknown ones are created under it
	Account   string
	Spec      sandbox.Spec // of a new one; the fields given must agree with one that is there
	Actor     string
}

// Open loads the sandbox or creates it, runs it, and checks that it can be reached.
func (e *Engine) Open(ctx context.Context, o Opening) (*Service, error) {
	id, err := sandbox.ParseID(o.SandboxID)
	switch {
	case err != nil:
		return nil, &named{err, ErrInvalidSandboxID}
	case o.Account == "" || o.Tenant == "":
		return nil, &named{sandbox.Errorf("open sandbox", api.CodeInvalidRequest, "an account and its tenant must be named"), ErrInvalidAccount}
	}
	if err := errors.Join(sandbox.CheckEnv(o.Spec.Env), sandbox.CheckMetadata(o.Spec.Metadata)); err != nil {
		return nil, &named{err, ErrInvalidConfig}
	}
	s, _, err := e.Ensure(ctx, Request{
		Owner: sandbox.Owner{Tenant: o.Tenant, Kind: sandbox.OwnerSandbox, ID: id}, ID: id, Spec: o.Spec, Actor: o.Actor,
	})
	if err != nil {
		return nil, name(err)
	}
	return &Service{Handle: e.HandleOn(s, o.Actor), Account: o.Account}, nil
}

// SetConversation says in which conversation the sandbox is used from now on.
func (v *Service) SetConversation(id string) { v.conversation.Store(&id) }

// Conversation is the one that was set, empty for none.
func (v *Service) Conversation() string {
	if id := v.conversation.Load(); id != nil {
		return *id
	}
	return ""
}

// Info is the sandbox's record as it is now.
func (v *Service) Info(ctx context.Context) (sandbox.Sandbox, error) {
	s, err := v.record(ctx)
	return s, name(err)
}

// Volume names what holds the sandbox's files: the instance, whose volume lives and ends with it. It is
// empty when there is none.
func (v *Service) Volume(ctx context.Context) (sandbox.InstanceID, error) {
	s, err := v.record(ctx)
	return s.Instance, name(err)
}

// Terminate ends the sandbox, after a last save if asked to. The next operation revives it.
func (v *Service) Terminate(ctx context.Context, save bool) error {
	_, err := v.Handle.Terminate(ctx, !save)
	return name(err)
}

// ListFiles lists files of one root, files.WorkingDir or files.HomeDir.
func (v *Service) ListFiles(ctx context.Context, root string, o files.ListOptions) (page files.Page, err error) {
	err = v.in(ctx, root, func(fs files.FS) error {
		if o.Path, err = files.Clean(o.Path); err != nil {
			return err
		}
		page, err = files.List(ctx, fs, o)
		return err
	})
	return page, err
}

// FileTree reads a tree of files of one root.
func (v *Service) FileTree(ctx context.Context, root string, o files.TreeOptions) (tree *files.Node, err error) {
	err = v.in(ctx, root, func(fs files.FS) error {
		if o.Path, err = files.Clean(o.Path); err != nil {
			return err
		}
		tree, _, err = files.Tree(ctx, fs, o)
		return err
	})
	return tree, err
}

// mostRead is how much of a file FileContent reads.
const mostRead = 10 << 20

// FileContent reads a file of one root. One that is larger than 10 MiB is CodeTooLarge.
func (v *Service) FileContent(ctx context.Context, root, path string) (content []byte, err error) {
	err = v.in(ctx, root, func(fs files.FS) error {
		if path, err = files.Clean(path); err != nil {
			return err
		}
		r, err := fs.Open(ctx, path)
		if err != nil {
			return err
		}
		defer r.Close()
		if content, err = io.ReadAll(io.LimitReader(r, mostRead+1)); len(content) > mostRead {
			content = nil
			return sandbox.Errorf("read file", api.CodeTooLarge, "the file has more than %d bytes; read it in ranges", mostRead)
		}
		return err
	})
	return content, err
}

// in makes the sandbox run and opens one root of its files.
func (v *Service) in(ctx context.Context, root string, do func(files.FS) error) error {
	if _, err := v.Sandbox(ctx); err != nil {
		return name(err)
	}
	fs, err := v.Files(ctx, root)
	if err != nil {
		return name(err)
	}
	defer fs.Close()
	return name(do(fs))
}

// SyncFiles brings the workspace and its stored versions together.
func (v *Service) SyncFiles(ctx context.Context) error {
	if _, err := v.Sandbox(ctx); err != nil {
		return name(err)
	}
	if v.e.noSave {
		return &named{sandbox.Errorf("sync files", api.CodeUnsupported, "this server cannot save workspaces"), ErrSyncFailed}
	}
	if _, err := v.Saving(ctx, "sync files", v.e.Restorer.Save); err != nil {
		return &named{err, ErrSyncFailed}
	}
	return nil
}
