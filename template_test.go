package berth_test

import (
	"testing"
	"time"

	"github.com/berthdev/berth"
)

// Every field of a template written in Go is accepted, and sandboxes can name it.
func TestTemplateFields(t *testing.T) {
	b := open(t, berth.Config{Driver: "fake", Templates: []berth.Template{{
		Name: "full", Extends: "demo", Description: "all fields", Tenants: []string{"default"},
		Driver: "fake", Base: "host", User: "agent", Env: map[string]string{"A": "b"}, EnvFrom: []string{"LANG"},
		Mounts: []berth.Mount{{Source: t.TempDir(), Target: "/opt/data"}}, Egress: []string{"example.com:443"},
		Profile: "lite", CPU: 1, MemoryBytes: 256 << 20, DiskBytes: 1 << 30, Processes: 100,
		Runtime: "demo", ParallelTurns: 2, AutoStop: time.Hour, AutoArchive: berth.Never, AutoDelete: berth.Never, MaxAge: berth.Never,
		StartEmpty: true, NoSync: true, NoDefaultHooks: true,
		Hooks: []berth.Hook{{Phase: berth.PhaseTerminate, Builtin: "log", Name: "last", Timeout: time.Minute}},
	}}})
	s := newSandbox(t, b, berth.WithTemplate("full"), berth.WithDriver("fake"), berth.WithMetadata(map[string]string{"k": "v"}))
	info := s.Model()
	if info.Template != "full" || info.Driver != "fake" || info.Profile != "lite" || info.Metadata["k"] != "v" || s.Account().Tenant != "default" {
		t.Errorf("%+v of %+v", info, s.Account())
	}
	if _, err := s.SyncFiles(t.Context()); err == nil {
		t.Error("a workspace is saved, and its template says no")
	}
}
