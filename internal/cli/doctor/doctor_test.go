package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/store"
)

// subject is a sound machine: an empty data directory of ours and a free port.
func subject(t *testing.T, flags ...string) Subject {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	given := map[string]string{"data-dir": dir, "listen": freePort(t)}
	for i := 0; i < len(flags); i += 2 {
		given[flags[i]] = flags[i+1]
	}
	cfg, err := config.Load(config.Sources{Flags: given})
	if err != nil {
		t.Fatal(err)
	}
	return Subject{Config: cfg, Build: "berth test", Drivers: []string{"fake", "local"}}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// expect fails unless the check ended with the status and its detail holds the words. Whatever is
// not ok must say how to mend it.
func expect(t *testing.T, s Subject, name, status, words string) {
	t.Helper()
	for _, c := range Run(t.Context(), s) {
		if c.Name != name {
			continue
		}
		if c.Status != status || !strings.Contains(c.Detail, words) || (c.Fix == "") != (status == OK) {
			t.Errorf("%s: %+v; want %s with %q", name, c, status, words)
		}
		return
	}
	t.Errorf("there is no check %q", name)
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestDoctorAsksTheServerThatCommandsUse(t *testing.T) {
	status := "ready"
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(api.Ready{Status: status, Version: "9.9"})
	}))
	find := func(address string) api.Check {
		for _, c := range Run(t.Context(), Subject{ConfigErr: errors.New("none"), Server: address}) {
			if c.Name == "server" {
				return c
			}
		}
		return api.Check{}
	}
	if c := find(there.URL); c.Status != OK || !strings.Contains(c.Detail, "Berth 9.9 at "+there.URL) {
		t.Errorf("%+v", c)
	}
	if c := find(""); c.Name != "" {
		t.Errorf("without one: %+v", c)
	}
	there.Close()
	if c := find(there.URL); c.Status != Warning || !strings.Contains(c.Fix, "unset BERTH_SERVER") {
		t.Errorf("one that is down: %+v", c)
	}
	if c := find("ftp://x"); c.Status != Failed {
		t.Errorf("%+v", c)
	}
}

func TestSoundMachinePassesAndIsLeftAsItWas(t *testing.T) {
	s := subject(t)
	checks := Run(t.Context(), s)
	if worst := Worst(checks); worst != OK {
		t.Errorf("worst is %s: %+v", worst, checks)
	}
	for _, c := range checks {
		if c.Detail == "" {
			t.Errorf("%s says nothing", c.Name)
		}
	}
	left, err := os.ReadDir(s.Config.DataDir)
	if err != nil || len(left) != 0 {
		t.Errorf("left %v (%v) in the data directory", left, err)
	}
}

func TestWorst(t *testing.T) {
	ok, warning, failed := api.Check{Status: OK}, api.Check{Status: Warning}, api.Check{Status: Failed}
	for want, checks := range map[string][]api.Check{OK: {ok}, Warning: {ok, warning, ok}, Failed: {failed, warning}} {
		if got := Worst(checks); got != want {
			t.Errorf("Worst(%v) = %s", checks, got)
		}
	}
}

func TestConfigurationThatCannotBeUsed(t *testing.T) {
	s := Subject{ConfigErr: errors.New("listen is not host:port"), Build: "berth test"}
	expect(t, s, "configuration", Failed, "listen is not host:port")
	expect(t, s, "kernel", OK, "Linux")
}

func TestConfigurationWarningsAndFile(t *testing.T) {
	s := subject(t)
	s.Config.File = "/etc/berth.toml"
	expect(t, s, "configuration", OK, "/etc/berth.toml")
	s.Config.Warnings = []string{"lease_ttl is odd"}
	expect(t, s, "configuration", Warning, "lease_ttl is odd")
}

func TestDataDirectory(t *testing.T) {
	s := subject(t)
	dir := s.Config.DataDir
	expect(t, s, "data_dir", OK, "writable, mode 0700")

	s.Config.DataDir = filepath.Join(dir, "deep", "below")
	expect(t, s, "data_dir", OK, "does not exist yet")

	file := filepath.Join(dir, "file")
	write(t, file, "", 0o600)
	s.Config.DataDir = file
	expect(t, s, "data_dir", Failed, "is not a directory")
	s.Config.DataDir = filepath.Join(file, "below")
	expect(t, s, "data_dir", Failed, "not a directory")

	s.Config.DataDir = dir
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "data_dir", Warning, "mode 0755")

	// The kernel's own directories cannot be written to, by root either.
	s.Config.DataDir = "/proc/self"
	expect(t, s, "data_dir", Failed, "/proc/self")
	expect(t, s, "object_store", Failed, "/proc/self")
	s.Config.DataDir = "/proc/nosuch/below"
	expect(t, s, "data_dir", Failed, "cannot be made")
}

func TestDataDirectoryOfAnotherUser(t *testing.T) {
	f := ownerFinding("/data", 1000, 0)
	if f.status != Warning || !strings.Contains(f.detail, "belongs to uid 1000, this is uid 0") {
		t.Errorf("%+v", f)
	}
}

func TestDiskSpace(t *testing.T) {
	for free, want := range map[uint64]string{50 << 20: Failed, 500 << 20: Warning, 5 << 30: OK} {
		if got := diskFinding("/data", free); got.status != want {
			t.Errorf("%d bytes free: %+v, want %s", free, got, want)
		}
	}
	expect(t, subject(t), "disk", OK, "GiB free")
}

func TestSecretsOpenToOthers(t *testing.T) {
	s := subject(t)
	expect(t, s, "secrets", OK, "none kept yet")
	write(t, filepath.Join(s.Config.DataDir, auth.AdminKeyFile), "k", 0o600)
	expect(t, s, "secrets", OK, "admin.key: for their owner alone")
	write(t, filepath.Join(s.Config.DataDir, auth.SecretFile), "k", 0o640)
	expect(t, s, "secrets", Failed, "other users may read "+filepath.Join(s.Config.DataDir, auth.SecretFile))
}

// TestRunningServerHoldsLockAndDatabase uses the store itself, so that the names of its files cannot
// drift away from the ones looked for here.
func TestRunningServerHoldsLockAndDatabase(t *testing.T) {
	s := subject(t)
	expect(t, s, "lock", OK, "free")
	expect(t, s, "database", OK, "does not exist yet")

	db, err := store.Open(t.Context(), store.Options{DataDir: s.Config.DataDir})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, s, "lock", OK, "held by process "+strconv.Itoa(os.Getpid()))
	expect(t, s, "database", OK, "the running server has it open")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "lock", OK, "free")
	expect(t, s, "database", OK, "SQLite, schema version")
}

func TestDatabaseThatIsNone(t *testing.T) {
	s := subject(t)
	write(t, filepath.Join(s.Config.DataDir, sqliteFile), strings.Repeat("this is no database ", 100), 0o600)
	expect(t, s, "database", Failed, "SQLite")
}

func TestSchemaAheadAndBehind(t *testing.T) {
	for _, c := range []struct {
		schema store.Schema
		status string
		words  string
	}{
		{store.Schema{Current: 9, Target: 3}, Failed, "schema version 9, this Berth knows up to 3"},
		{store.Schema{Current: 1, Target: 3}, OK, "the server brings it to 3"},
		{store.Schema{Current: 3, Target: 3}, OK, "schema version 3"},
	} {
		if f := schemaFinding("SQLite", c.schema); f.status != c.status || !strings.Contains(f.detail, c.words) {
			t.Errorf("%+v: %+v", c.schema, f)
		}
	}
}

func TestPortTakenByAnotherProgram(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	expect(t, subject(t, "listen", l.Addr().String()), "port", Failed, "not Berth")
}

func TestPortOfABerth(t *testing.T) {
	ready := api.Ready{Status: "ready", Version: "1.2.3"}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":"` + ready.Status + `","version":"` + ready.Version + `","checks":[{"name":"database","status":"failed","detail":"is gone"},{"name":"x","status":"ok"}]}`))
	}))
	defer srv.Close()
	s := subject(t, "listen", strings.TrimPrefix(srv.URL, "http://"))
	expect(t, s, "port", Failed, "Berth 1.2.3 serves on "+s.Config.Listen+", but not from "+s.Config.DataDir)
	db, err := store.Open(t.Context(), store.Options{DataDir: s.Config.DataDir})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	expect(t, s, "port", OK, "Berth 1.2.3 serves on")
	ready.Status = "not_ready"
	expect(t, s, "port", Warning, "says it is not_ready; database: is gone")
	ready.Status = ""
	expect(t, s, "port", Failed, "not Berth")
}

func TestAddressThatIsNotOurs(t *testing.T) {
	expect(t, subject(t, "listen", "192.0.2.1:7070"), "port", Failed, "192.0.2.1")
}

func TestReachable(t *testing.T) {
	for listen, want := range map[string]string{
		"0.0.0.0:1": "127.0.0.1:1", ":1": "127.0.0.1:1", "[::]:1": "127.0.0.1:1", "10.0.0.1:1": "10.0.0.1:1", "host:1": "host:1", "odd": "odd",
	} {
		if got := reachable(listen); got != want {
			t.Errorf("reachable(%q) = %q, want %q", listen, got, want)
		}
	}
}

func TestObjectStore(t *testing.T) {
	dir := t.TempDir()
	for given, want := range map[string]string{
		"":                    "a directory in the data directory",
		"none":                "workspaces are not saved",
		dir:                   dir + ", writable",
		"file://" + dir + "/": dir,
		"s3://bucket/prefix":  "s3://bucket/prefix",
	} {
		expect(t, subject(t, "object-store", given), "object_store", OK, want)
	}
	expect(t, subject(t, "object-store", "/proc/nosuch"), "object_store", Failed, "/proc/nosuch")
	s := subject(t)
	s.Config.ObjectStore = "%zz://"
	expect(t, s, "object_store", Failed, "not a readable URL")
}

func TestMessageStore(t *testing.T) {
	expect(t, subject(t), "message_store", OK, "the database")
	expect(t, subject(t, "message-store", "dynamodb://chats?region=eu-west-1"), "message_store", OK, "dynamodb://chats")
	s := subject(t)
	s.Config.MessageStore = "%zz://"
	expect(t, s, "message_store", Failed, "not a readable URL")
}

func TestDrivers(t *testing.T) {
	s := subject(t)
	expect(t, s, "drivers", OK, "fake, local; local is the default")
	s.Config.FakeDriverDir = "/proc/nosuch"
	expect(t, s, "drivers", Failed, "fake: ")
	s.Config.DefaultDriver = "modal"
	expect(t, s, "drivers", Failed, `default_driver is "modal"; this Berth has fake, local`)
}

// TestEngineIsTriedWhileNoServerRuns: otherwise the server that uses the data directory knows better.
func TestEngineIsTriedWhileNoServerRuns(t *testing.T) {
	s := subject(t)
	for _, c := range Run(t.Context(), s) {
		if strings.HasPrefix(c.Name, "driver ") {
			t.Errorf("nothing to try: %+v", c)
		}
	}
	s.Probe = func(_ context.Context, cfg *config.Loaded) []api.Check {
		if cfg != s.Config {
			t.Error("asked about another configuration")
		}
		return []api.Check{{Name: "driver local", Status: Failed, Detail: "no user namespaces", Fix: "turn them on"}}
	}
	expect(t, s, "driver local", Failed, "no user namespaces")

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":"ready","version":"9","checks":[{"name":"database","status":"ok"},{"name":"driver local","status":"ok","detail":"as root"},{"name":"message store","status":"warning","detail":"no answer","fix":"wait"}]}`))
	}))
	defer srv.Close()
	s.Config.Listen = srv.Listener.Addr().String()
	expect(t, s, "driver local", Failed, "no user namespaces") // it serves from elsewhere
	db, err := store.Open(t.Context(), store.Options{DataDir: s.Config.DataDir})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	expect(t, s, "driver local", OK, "as root")
	expect(t, s, "message store", Warning, "no answer")
}

func TestClock(t *testing.T) {
	for year, want := range map[int]string{1970: Failed, 2030: OK, 2150: Failed} {
		if f := clockAt(time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC)); f.status != want {
			t.Errorf("year %d: %+v", year, f)
		}
	}
}

func TestHostFactsWhereTheyAreMissing(t *testing.T) {
	empty := t.TempDir()
	if got := osName(filepath.Join(empty, "none")); got != "distribution unknown" {
		t.Error(got)
	}
	write(t, filepath.Join(empty, "os-release"), "ID=x\n", 0o600)
	if got := osName(filepath.Join(empty, "os-release")); got != "distribution unknown" {
		t.Error(got)
	}
	if f := cgroupsAt(empty); f.status != OK || !strings.Contains(f.detail, "not mounted") {
		t.Errorf("%+v", f)
	}
	write(t, filepath.Join(empty, "cgroup.controllers"), "cpu memory\n", 0o600)
	if f := cgroupsAt(empty); f.detail != "version 2 with cpu memory" {
		t.Errorf("%+v", f)
	}
	if onOff("0") != "off" || onOff(unknown) != "on" {
		t.Error("the switch is read the wrong way round")
	}
}

func TestHangingCheckIsCutShort(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := check{"slow", func(ctx context.Context, _ Subject) finding {
		<-ctx.Done()
		return warn("wait", "%v", ctx.Err())
	}}
	if got := c.run(ctx, Subject{}); got.Status != Warning {
		t.Errorf("%+v", got)
	}
}
