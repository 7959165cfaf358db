package engine

import (
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/telemetry"
)

// Show converts a sandbox to its API type. It leaves out the values of the environment, also in error messages.
func Show(s sandbox.Sandbox) api.Sandbox {
	return api.Sandbox{
		ID: sandbox.PublicID(s.ID), Name: s.Name, Owner: api.Owner{Kind: string(s.Owner.Kind), ID: sandbox.PublicID(s.Owner.ID)},
		Template: s.Spec.Template, Driver: s.Spec.Driver, Profile: s.Spec.Profile,
		State: string(s.State), Want: string(s.Want),
		Env: slices.Sorted(maps.Keys(s.Spec.Env)), Metadata: s.Spec.Metadata,
		Instance: sandbox.PublicIDs(string(s.Instance)), Incarnation: s.Incarnation, Finalizers: s.Finalizers,
		CreatedAt: s.CreatedAt, StartedAt: orNil(s.StartedAt), ActiveAt: s.ActiveAt, DeletedAt: orNil(s.DeletedAt),
		Error: showFailure(s, s.Failure), Saved: ShowSaved(s),
	}
}

// ShowSaved returns the state of a sandbox's workspace and its versions.
func ShowSaved(s sandbox.Sandbox) api.Saved {
	out := api.Saved{UnsavedSince: orNil(s.UnsavedSince), SaveError: showFailure(s, s.SaveFailure)}
	if r := s.Restored; r.Version != "" {
		out.Restored = &api.RestoredVersion{Version: r.Version, SavedAt: r.SavedAt, At: r.At}
	}
	if l := s.Lost; !l.At.IsZero() {
		out.Lost = &api.LostChanges{Since: l.Since, At: l.At}
	}
	return out
}

func showFailure(s sandbox.Sandbox, f *sandbox.Failure) *api.SandboxError {
	if f == nil {
		return nil
	}
	return &api.SandboxError{Code: f.Code, Message: sandbox.PublicIDs(HideEnv(s.Spec.Env)(f.Message)), At: f.At, Attempts: f.Attempts}
}

// ShowExit converts the exit of a command to its API type. If started is zero, the duration is left out.
func ShowExit(exit guest.Exit, started time.Time) api.ExecExit {
	out := api.ExecExit{ExitCode: exit.Code, Reason: exit.Reason, Lost: exit.Lost}
	if exit.Signal != 0 {
		out.Signal = strings.TrimPrefix(unix.SignalName(exit.Signal), "SIG")
	}
	if exit.Lost {
		out.ExitCode, out.Signal = -1, ""
	}
	if !started.IsZero() && !exit.At.IsZero() {
		out.DurationMS = max(exit.At.Sub(started).Milliseconds(), 0)
	}
	return out
}

// HideEnv returns a function that removes the values of an environment from a text. The errors of a driver may contain
// such values.
func HideEnv(env map[string]string) func(text string) string {
	r := new(telemetry.Redactor)
	for _, value := range env {
		r.Add(value)
	}
	return r.String
}

func orNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
