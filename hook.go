package berth

import (
	"context"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
)

// Phase is the point of a sandbox's life at which a hook runs.
type Phase string

// The phases of a sandbox's life.
const (
	// PhaseColdStart follows the start of an instance and the restore of its workspace. An error of a hook fails the
	// start and is returned as [ErrHookExecutionFailed]. In all other phases, errors of hooks are only logged.
	PhaseColdStart Phase = Phase(hook.OnColdStart)
	// PhaseMessage follows the storing of a message, a prompt or an answer.
	PhaseMessage Phase = Phase(hook.OnMessage)
	// PhaseStreamFinish follows the end of a turn, successful or not.
	PhaseStreamFinish Phase = Phase(hook.OnStreamFinish)
	// PhaseVersionSaved follows the save of a turn's workspace, which may happen long after the turn.
	PhaseVersionSaved Phase = Phase(hook.OnVersionSaved)
	// PhaseTerminate precedes the termination of an instance.
	PhaseTerminate Phase = Phase(hook.OnTerminate)
)

// HookFunc is a hook in Go. After a crash it may be called again for the same event. A panic counts as an error.
type HookFunc func(ctx context.Context, d *HookData) error

// Hook is one hook of a template. Exactly one of Run, Command, URL and Builtin is set.
type Hook struct {
	Phase   Phase         // the point at which it runs
	Name    string        // its name in logs and metrics; empty: derived from its kind
	Timeout time.Duration // zero: the phase's default

	Run     HookFunc // a function of this program
	Command []string // a command in the sandbox
	URL     string   // a webhook
	Builtin string   // pull, store, push, tally, log or clone

	Secret       string // the key that signs calls of the webhook: whsec_…
	AllowPrivate bool   // allows a webhook at an address that is not public
}

// OnColdStart returns a hook that runs f at each start of an instance.
func OnColdStart(f HookFunc) Hook { return Hook{Phase: PhaseColdStart, Run: f} }

// OnMessage returns a hook that runs f for each stored message.
func OnMessage(f HookFunc) Hook { return Hook{Phase: PhaseMessage, Run: f} }

// OnStreamFinish returns a hook that runs f after each turn.
func OnStreamFinish(f HookFunc) Hook { return Hook{Phase: PhaseStreamFinish, Run: f} }

// OnTerminate returns a hook that runs f before an instance ends.
func OnTerminate(f HookFunc) Hook { return Hook{Phase: PhaseTerminate, Run: f} }

func (h Hook) convert() template.Hook {
	out := template.Hook{
		Name: h.Name, Phase: string(h.Phase), Timeout: template.Duration(h.Timeout), Command: h.Command, URL: h.URL, Builtin: h.Builtin,
		Secret: h.Secret, AllowPrivate: h.AllowPrivate,
	}
	if h.Run != nil {
		out.Run = func(ctx context.Context, d *hook.Data) error { return h.Run(ctx, newHookData(d)) }
	}
	return out
}

// HookData is the input of a hook. Values that a hook sets with SetMetadata and SetStat are stored after all hooks of
// the phase have run.
type HookData struct {
	Phase          Phase       // the point at which the hook runs
	Sandbox        HookSandbox // the sandbox that the hook runs for
	ConversationID string      // empty: none
	TurnID         string      // the turn, or the turn of the message; empty: none
	Message        api.Message // the stored message; in PhaseStreamFinish the agent's answer
	Usage          api.Usage   // the tokens of the turn
	Status         string      // the final status of the turn, such as api.TurnCompleted
	Version        string      // the newest version of the workspace

	data *hook.Data
}

// HookSandbox is the sandbox that a hook runs for.
type HookSandbox struct {
	ID          string    // the sandbox's id, a UUID
	Name        string    // the sandbox's name; empty: none
	Tenant      string    // the tenant of its account
	Owner       api.Owner // the sandbox itself, a conversation or a project
	Template    string    // the template's name
	Driver      string    // the driver's name
	Incarnation int64     // the number of its instance: 1 for the first
	S3          *HookS3   // where its versions are saved; nil: its workspace is not saved
}

// HookS3 is the location of a workspace's versions in the object store.
type HookS3 struct {
	Bucket     string // the S3 bucket; empty: the object store is a directory
	Prefix     string // the prefix of the versions' keys, with a slash at its end
	InitFromS3 bool   // a new sandbox starts with the newest version under Prefix
}

func newHookData(d *hook.Data) *HookData {
	out := &HookData{
		Phase: Phase(d.Phase), ConversationID: sandbox.PublicID(d.ConversationID), TurnID: d.TurnID,
		Message: d.Message, Usage: d.Usage, Status: d.Status, Version: d.Version, data: d,
		Sandbox: HookSandbox{
			ID: sandbox.PublicID(d.Sandbox.ID), Name: d.Sandbox.Name, Tenant: d.Sandbox.Tenant,
			Owner:    api.Owner{Kind: d.Sandbox.Owner.Kind, ID: sandbox.PublicID(d.Sandbox.Owner.ID)},
			Template: d.Sandbox.Template, Driver: d.Sandbox.Driver, Incarnation: d.Sandbox.Incarnation,
		},
	}
	if s3 := d.Sandbox.S3; s3 != nil {
		out.Sandbox.S3 = &HookS3{Bucket: s3.Bucket, Prefix: s3.Prefix, InitFromS3: s3.InitFromS3}
	}
	return out
}

// SetMetadata sets an entry of the sandbox's metadata. It is stored after all hooks of the phase have run. Names that
// begin with total_ or berth are reserved.
func (d *HookData) SetMetadata(key, value string) error {
	return wrap("set metadata", d.data.SetMetadata(key, value))
}

// SetStat sets a key of the conversation's extra stats. It is stored after all hooks of the phase have run. The names
// of Berth's own counters are reserved.
func (d *HookData) SetStat(key string, value float64) error {
	return wrap("set stat", d.data.SetStat(key, value))
}

// Exec runs a command in the sandbox and waits for its end, as [Sandbox.Exec] does, but does not start the sandbox.
func (d *HookData) Exec(ctx context.Context, cmd Command) (api.ExecExit, error) {
	const op = "run command"
	if err := checkContext(ctx); err != nil {
		return api.ExecExit{}, wrap(op, err)
	}
	conn, err := d.data.Guest(ctx)
	if err != nil {
		return api.ExecExit{}, wrap(op, err)
	}
	defer conn.Close()
	exit, err := cmd.run(ctx, conn, d.data.Command)
	return exit, wrap(op, err)
}
