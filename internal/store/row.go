package store

import (
	"encoding/json"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// sandboxColumns are the columns that scanSandbox reads, in this order.
const sandboxColumns = `sandboxes.id, tenant, owner_kind, owner_id, name, template, driver, profile, env, metadata, account, agent, prefix, host,
	state, want, deleted_at, generation, incarnation, instance, left_incarnation, synced_version, synced_incarnation, failure,
	recoveries, recovered_since, finalizers, skip_save, purge, created_at, started_at, active_at, probed_at, destroyed_at, due_at,
	unsaved_since, changed_at, save_failure, restored_version, restored_saved_at, restored_at, lost_since, lost_at, paused_at, resumed_at,
	(select max(h.until) from holds h where h.sandbox = sandboxes.id) as held_until`

func (db *DB) scanSandbox(row scanner) (s sandbox.Sandbox, err error) {
	var failure, saving *failureRow
	var env string
	err = row.Scan(&s.ID, &s.Owner.Tenant, &s.Owner.Kind, &s.Owner.ID, &s.Name,
		&s.Spec.Template, &s.Spec.Driver, &s.Spec.Profile, &env, document{&s.Spec.Metadata}, &s.Account, &s.Agent, &s.Prefix, &s.Host,
		&s.State, &s.Want, instant{&s.DeletedAt}, &s.Generation, &s.Incarnation, &s.Instance, &s.Left,
		&s.Synced.Version, &s.Synced.Incarnation, document{&failure},
		&s.Recovered.Count, instant{&s.Recovered.Since}, document{&s.Finalizers}, &s.SkipSave, &s.Purge,
		instant{&s.CreatedAt}, instant{&s.StartedAt}, instant{&s.ActiveAt}, instant{&s.ProbedAt},
		instant{&s.DestroyedAt}, instant{&s.DueAt},
		instant{&s.UnsavedSince}, instant{&s.ChangedAt}, document{&saving}, &s.Restored.Version,
		instant{&s.Restored.SavedAt}, instant{&s.Restored.At}, instant{&s.Lost.Since}, instant{&s.Lost.At}, instant{&s.PausedAt}, instant{&s.ResumedAt}, instant{&s.HeldUntil})
	if failure != nil {
		f := sandbox.Failure(*failure)
		s.Failure = &f
	}
	if saving != nil {
		f := sandbox.Failure(*saving)
		s.SaveFailure = &f
	}
	if err == nil {
		s.EnvProblem = db.Secrets().openJSON(sandboxEnv(s.Owner.Tenant, s.ID), env, &s.Spec.Env)
	}
	return s, err
}

// failureRow is the stored form of a sandbox.Failure.
type failureRow struct {
	Code     api.Code     `json:"code"`
	Message  string       `json:"message"`
	At       time.Time    `json:"at"`
	Want     sandbox.Want `json:"want"`
	Attempts int          `json:"attempts"`
	Final    bool         `json:"final"`
}

// messageOf returns the failure's message; empty if f is nil.
func messageOf(f *sandbox.Failure) string {
	if f == nil {
		return ""
	}
	return printable(f.Message)
}

// failureArg returns the failure as an argument; null if f is nil.
func failureArg(f *sandbox.Failure) any {
	if f == nil {
		return nil
	}
	row := failureRow(*f)
	row.At = row.At.UTC().Truncate(time.Microsecond)
	text, err := json.Marshal(row)
	if err != nil {
		panic(err) // only a year beyond 9999 does not marshal
	}
	return string(text)
}
