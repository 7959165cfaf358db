package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/testkit"
)

// env makes an environment with a home, so that the data dir has a default for
// ordinary users too.
func env(pairs ...string) func(string) (string, bool) {
	vars := map[string]string{"HOME": "/home/someone"}
	for i := 0; i < len(pairs); i += 2 {
		vars[pairs[i]] = pairs[i+1]
	}
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

func writeFile(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "berth.toml")
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, src config.Sources) *config.Loaded {
	t.Helper()
	if src.Env == nil {
		src.Env = env()
	}
	l, err := config.Load(src)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return l
}

func problems(t *testing.T, src config.Sources) []config.Problem {
	t.Helper()
	if src.Env == nil {
		src.Env = env()
	}
	_, err := config.Load(src)
	var refused *config.Error
	if !errors.As(err, &refused) {
		t.Fatalf("Load gave %v, want a *config.Error", err)
	}
	return refused.Problems
}

func TestDefaultsServeOnLoopbackWithoutLimits(t *testing.T) {
	l := load(t, config.Sources{})
	if l.Listen != "127.0.0.1:7070" || l.DefaultDriver != "local" || l.DefaultTemplate != "default" {
		t.Errorf("listen %q, driver %q, template %q", l.Listen, l.DefaultDriver, l.DefaultTemplate)
	}
	if l.SyncStaleThreshold != time.Hour || l.SandboxHealthCheckInterval != time.Minute || l.LeaseTTL != 15*time.Second {
		t.Errorf("stale %v, health %v, lease %v", l.SyncStaleThreshold, l.SandboxHealthCheckInterval, l.LeaseTTL)
	}
	if l.SandboxProfileType != "standard" || !l.SandboxAutoRecover || !l.SandboxRuntimeEnabled || l.MaxBodyBytes != 1<<20 {
		t.Errorf("profile %q, recover %v, runtime %v, body %d", l.SandboxProfileType, l.SandboxAutoRecover, l.SandboxRuntimeEnabled, l.MaxBodyBytes)
	}
	if l.FakeDriverDir != filepath.Join(l.DataDir, "fake") {
		t.Errorf("fake driver dir %q is not in data dir %q", l.FakeDriverDir, l.DataDir)
	}
	if caps := l.Caps(); caps != (config.Caps{}) {
		t.Errorf("loopback has caps %+v", caps)
	}
	if len(l.Warnings) > 0 {
		t.Errorf("defaults warn: %q", l.Warnings)
	}
	for _, s := range config.Settings() {
		if got := l.Origin(s.Key); got != "default" {
			t.Errorf("origin of %s is %q", s.Key, got)
		}
	}
	if got := l.Origin("nothing"); got != "" {
		t.Errorf("origin of an unknown key is %q", got)
	}
}

func TestStrongestSourceWins(t *testing.T) {
	path := writeFile(t, "# ours\nlisten = \"127.0.0.1:1\"\nlog_level = \"debug\"\n")
	type step struct {
		name   string
		src    config.Sources
		listen string
		origin string
	}
	vars := env("BERTH_LISTEN", "127.0.0.1:2")
	flags := map[string]string{"listen": "127.0.0.1:3"}
	for _, s := range []step{
		{"default", config.Sources{}, "127.0.0.1:7070", "default"},
		{"file", config.Sources{File: path}, "127.0.0.1:1", "file " + path + ":2"},
		{"env", config.Sources{File: path, Env: vars}, "127.0.0.1:2", "env BERTH_LISTEN"},
		{"flag", config.Sources{File: path, Env: vars, Flags: flags}, "127.0.0.1:3", "flag --listen"},
	} {
		t.Run(s.name, func(t *testing.T) {
			l := load(t, s.src)
			if l.Listen != s.listen || l.Origin("listen") != s.origin {
				t.Errorf("listen %q from %q, want %q from %q", l.Listen, l.Origin("listen"), s.listen, s.origin)
			}
		})
	}
}

func TestFileNamedByEnvironment(t *testing.T) {
	path := writeFile(t, `log_format = "json"`)
	l := load(t, config.Sources{Env: env("BERTH_CONFIG", path)})
	if l.File != path || l.LogFormat != "json" {
		t.Errorf("file %q, format %q", l.File, l.LogFormat)
	}
}

func TestEmptyVariableIsNotSet(t *testing.T) {
	path := writeFile(t, `database_url = "postgres://db/berth"`)
	l := load(t, config.Sources{File: path, Env: env("DATABASE_URL", "")})
	if l.DatabaseURL.Reveal() != "postgres://db/berth" {
		t.Errorf("an empty variable hid the file: %q", l.DatabaseURL.Reveal())
	}
	l = load(t, config.Sources{File: path, Flags: map[string]string{"database-url": ""}})
	if l.DatabaseURL != "" || l.Origin("database_url") != "flag --database-url" {
		t.Errorf("an empty flag did not win: %v from %s", l.DatabaseURL, l.Origin("database_url"))
	}
}

func TestEstablishedEnvironmentNamesWork(t *testing.T) {
	testkit.Proves(t, "X7")
	cases := map[string]struct{ value, key, want string }{
		"S3_BUCKET_AGENT_DOCS":          {"agent-docs", "s3_bucket_agent_docs", "agent-docs"},
		"MODAL_TOKEN_ID":                {"ak-1", "modal_token_id", "ak-1"},
		"MODAL_TOKEN_SECRET":            {"as-0123456789abcdef", "modal_token_secret", "as-0…(masked)"},
		"DAYTONA_API_KEY":               {"dtn_0123456789abcdef", "daytona_api_key", "dtn_…(masked)"},
		"DAYTONA_API_URL":               {"https://daytona.example/api", "daytona_api_url", "https://daytona.example/api"},
		"DAYTONA_TARGET":                {"eu", "daytona_target", "eu"},
		"SANDBOX_HACKCLUB_API_KEY":      {"hack0123456789abcdef", "sandbox_hackclub_api_key", "hack…(masked)"},
		"SANDBOX_AGENT_TOKEN":           {"tok-0123456789abcdef", "sandbox_agent_token", "tok-…(masked)"},
		"SANDBOX_SYNC_STALE_THRESHOLD":  {"120", "sync_stale_threshold", "2m"},
		"SANDBOX_PROFILE_TYPE":          {"lite", "sandbox_profile_type", "lite"},
		"SANDBOX_AUTO_RECOVER":          {"False", "sandbox_auto_recover", "false"},
		"SANDBOX_HEALTH_CHECK_INTERVAL": {"30", "sandbox_health_check_interval", "30s"},
		"sandbox_health_check_interval": {"31", "sandbox_health_check_interval", "31s"},
		"SANDBOX_RUNTIME_ENABLED":       {"false", "sandbox_runtime_enabled", "false"},
		"DATABASE_URL":                  {"postgresql://u:pw@db/x", "database_url", "postgresql://u:(masked)@db/x"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			// The two Modal names only make sense together.
			vars := env("MODAL_TOKEN_ID", "ak-1", "MODAL_TOKEN_SECRET", "as-0123456789abcdef", name, c.value)
			l := load(t, config.Sources{Env: vars})
			for _, row := range l.Rows() {
				if row.Key == c.key && (row.Value != c.want || row.Origin != "env "+name) {
					t.Errorf("%s = %q from %q, want %q", row.Key, row.Value, row.Origin, c.want)
				}
			}
		})
	}
}

func TestOwnNameBeatsEstablishedNameWithWarning(t *testing.T) {
	vars := env("BERTH_SYNC_STALE_THRESHOLD", "60", "SANDBOX_SYNC_STALE_THRESHOLD", "70")
	l := load(t, config.Sources{Env: vars})
	if l.SyncStaleThreshold != time.Minute {
		t.Errorf("threshold %v", l.SyncStaleThreshold)
	}
	if len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0], "BERTH_SYNC_STALE_THRESHOLD is used") {
		t.Errorf("warnings %q", l.Warnings)
	}
}

func TestBadTuningBecomesDefaultWithWarning(t *testing.T) {
	cases := map[string]struct{ raw, why string }{
		"SANDBOX_SYNC_STALE_THRESHOLD":        {"-5", "is negative"},
		"BERTH_SYNC_STALE_THRESHOLD":          {"an hour", "is not a duration"},
		"BERTH_LEASE_TTL":                     {"0", "is less than 1s"},
		"BERTH_RECONCILE_INTERVAL":            {"99999999999999", "is too large"},
		"BERTH_DRAIN_TIMEOUT":                 {"-1s", "is negative"},
		"BERTH_REQUEST_TIMEOUT":               {"1.5", "is not a duration"},
		"BERTH_SANDBOX_HEALTH_CHECK_INTERVAL": {"-99999999999999", "is too large"},
		"BERTH_RATE_LIMIT":                    {"-3", "is negative"},
		"BERTH_RATE_BURST":                    {"many", "is not a limit"},
		"BERTH_MAX_SANDBOXES_PER_TENANT":      {"99999999999", "is not a limit"},
		"BERTH_MAX_BODY_BYTES":                {"1MB", "is not a size"},
	}
	defaults := load(t, config.Sources{})
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := load(t, config.Sources{Env: env(name, c.raw)})
			if len(l.Warnings) != 1 {
				t.Fatalf("warnings %q", l.Warnings)
			}
			for _, part := range []string{"env " + name, c.raw, c.why, "the default"} {
				if !strings.Contains(l.Warnings[0], part) {
					t.Errorf("warning %q does not say %q", l.Warnings[0], part)
				}
			}
			for i, row := range l.Rows() {
				if row != defaults.Rows()[i] {
					t.Errorf("%+v is not the default", row)
				}
			}
		})
	}
}

func TestSizes(t *testing.T) {
	for raw, want := range map[string]int64{"1": 1, "4KiB": 4096, " 2 MiB": 2 << 20, "1GiB": 1 << 30} {
		if l := load(t, config.Sources{Env: env("BERTH_MAX_BODY_BYTES", raw)}); l.MaxBodyBytes != want {
			t.Errorf("%q is %d bytes, want %d", raw, l.MaxBodyBytes, want)
		}
	}
	for _, raw := range []string{"0", "-1", "9999999999GiB", "", "KiB"} {
		path := writeFile(t, `max_body_bytes = "`+raw+`"`)
		if l := load(t, config.Sources{File: path}); l.MaxBodyBytes != 1<<20 || len(l.Warnings) != 1 {
			t.Errorf("%q is %d bytes with warnings %q", raw, l.MaxBodyBytes, l.Warnings)
		}
	}
}

func TestCaps(t *testing.T) {
	cases := []struct {
		name  string
		pairs []string
		want  config.Caps
	}{
		{"open", []string{"BERTH_LISTEN", "0.0.0.0:7070"}, config.Caps{1000, 2000, 1000, 200}},
		{"all interfaces", []string{"BERTH_LISTEN", ":7070"}, config.Caps{1000, 2000, 1000, 200}},
		{"localhost", []string{"BERTH_LISTEN", "LocalHost:7070"}, config.Caps{}},
		{"ipv6 loopback", []string{"BERTH_LISTEN", "[::1]:7070"}, config.Caps{}},
		{"asked on loopback", []string{"BERTH_RATE_LIMIT", "5", "BERTH_MAX_TURNS_PER_TENANT", "3"}, config.Caps{5, 10, 0, 3}},
		{"burst below rate", []string{"BERTH_RATE_LIMIT", "5", "BERTH_RATE_BURST", "2"}, config.Caps{5, 5, 0, 0}},
		{"burst", []string{"BERTH_RATE_LIMIT", "5", "BERTH_RATE_BURST", "50"}, config.Caps{5, 50, 0, 0}},
		{"off when open", []string{"BERTH_LISTEN", "0.0.0.0:1", "BERTH_RATE_LIMIT", "off", "BERTH_MAX_SANDBOXES_PER_TENANT", "off"},
			config.Caps{0, 0, 0, 200}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l := load(t, config.Sources{Env: env(c.pairs...)})
			if got := l.Caps(); got != c.want {
				t.Errorf("caps %+v, want %+v", got, c.want)
			}
		})
	}
	if (&config.Config{Listen: "nonsense"}).Loopback() {
		t.Error("an unreadable address counts as loopback")
	}
}

func TestDefaultDataDir(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	cases := []struct {
		name string
		env  func(string) (string, bool)
		root bool
		want string
	}{
		{"root", none, true, "/var/lib/berth"},
		{"user", env(), false, "/home/someone/.local/share/berth"},
		{"xdg", env("XDG_DATA_HOME", "/x"), false, "/x/berth"},
		{"xdg for root", env("XDG_DATA_HOME", "/x"), true, "/x/berth"},
		{"relative xdg is ignored", env("XDG_DATA_HOME", "x"), true, "/var/lib/berth"},
		{"homeless user", none, false, ""},
		{"no environment", nil, true, "/var/lib/berth"},
	}
	for _, c := range cases {
		if got := config.DefaultDataDir(c.env, c.root); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestRelativeDataDirStartsAtWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	l := load(t, config.Sources{Flags: map[string]string{"data-dir": "data"}})
	if l.DataDir != filepath.Join(dir, "data") {
		t.Errorf("data dir %q", l.DataDir)
	}
}

func environ(vars map[string]string) func(string) (string, bool) {
	var pairs []string
	for name, value := range vars {
		pairs = append(pairs, name, value)
	}
	return env(pairs...)
}

// What is accepted and has no effect is named, with where it was set; defaults are not.
func TestSettingsWithoutEffectAreNamed(t *testing.T) {
	testkit.Proves(t, "X7")
	vars := map[string]string{
		"MODAL_TOKEN_ID": "id", "MODAL_TOKEN_SECRET": "modal-secret-1",
		"DAYTONA_API_KEY": "daytona-secret-1", "DAYTONA_API_URL": "https://daytona.example", "DAYTONA_TARGET": "eu",
		"SANDBOX_HACKCLUB_API_KEY": "hack-secret-1",
	}
	l, err := config.Load(config.Sources{Env: environ(vars)})
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Join(l.Warnings, "\n")
	for name, value := range vars {
		if !strings.Contains(said, name) {
			t.Errorf("nothing is said about %s", name)
		}
		if len(value) > 10 && strings.Contains(said, value) {
			t.Errorf("the value of %s is shown", name)
		}
	}
	vars = map[string]string{"SANDBOX_RUNTIME_ENABLED": "false"} // it has an effect
	if l, err = config.Load(config.Sources{Env: environ(vars)}); err != nil || len(l.Warnings) != 0 {
		t.Errorf("%v, %v", l.Warnings, err)
	}
}

func TestBucketIsTheObjectStore(t *testing.T) {
	testkit.Proves(t, "X7")
	load := func(vars map[string]string) *config.Loaded {
		t.Helper()
		l, err := config.Load(config.Sources{Env: environ(vars)})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := load(map[string]string{"S3_BUCKET_AGENT_DOCS": "docs-bucket"}); l.ObjectStore != "s3://docs-bucket" || l.Origin("object_store") != "env S3_BUCKET_AGENT_DOCS" || len(l.Warnings) != 0 {
		t.Errorf("%q from %s, %v", l.ObjectStore, l.Origin("object_store"), l.Warnings)
	}
	if l := load(map[string]string{"S3_BUCKET_AGENT_DOCS": "docs-bucket", "BERTH_OBJECT_STORE": "s3://docs-bucket/x"}); l.ObjectStore != "s3://docs-bucket/x" || len(l.Warnings) != 0 {
		t.Errorf("%q, %v", l.ObjectStore, l.Warnings)
	}
	if l := load(map[string]string{"S3_BUCKET_AGENT_DOCS": "docs-bucket", "BERTH_OBJECT_STORE": "s3://other"}); l.ObjectStore != "s3://other" || len(l.Warnings) != 1 {
		t.Errorf("%q, %v", l.ObjectStore, l.Warnings)
	}
}

func TestPreviousSecrets(t *testing.T) {
	const one, two = "0123456789abcdef-one", "0123456789abcdef-two"
	for _, src := range []config.Sources{
		{Env: env("BERTH_SECRET_KEY_PREVIOUS", one+", "+two)},
		{File: writeFile(t, "secret_key_previous = [\""+one+"\", \""+two+"\"]")},
	} {
		l := load(t, src)
		if len(l.SecretKeyPrevious) != 2 || l.SecretKeyPrevious[0].Reveal() != one || l.SecretKeyPrevious[1].Reveal() != two {
			t.Errorf("%d secrets", len(l.SecretKeyPrevious))
		}
		if known := strings.Join(l.Secrets(), " "); !strings.Contains(known, one) || !strings.Contains(known, two) {
			t.Error("they are not kept out of logs")
		}
	}
	p := problems(t, config.Sources{Env: env("BERTH_SECRET_KEY_PREVIOUS", one+",short")})
	if len(p) != 1 || p[0].Key != "secret_key_previous" || strings.Contains(fmt.Sprint(p[0]), one) {
		t.Errorf("a short one: %+v", p)
	}
}

// Attachments are held in memory, so that their sizes have an end.
func TestLimitsOfAttachments(t *testing.T) {
	good := load(t, config.Sources{File: writeFile(t, "max_attachment_bytes = \"256MiB\"\nmax_prompt_attachments = 100\nmax_prompt_attachment_bytes = \"1MiB\"\nmax_waiting_attachment_bytes = \"9GiB\"\n")})
	if good.MaxAttachmentBytes != 256<<20 || good.MaxPromptAttachments != 100 || good.MaxPromptAttachmentBytes != 1<<20 || good.MaxWaitingAttachmentBytes != 9<<30 {
		t.Errorf("%+v", good.Config)
	}
	for _, bad := range []string{
		`max_attachment_bytes = "257MiB"`, `max_prompt_attachment_bytes = "1GiB"`, `max_prompt_attachments = 0`, `max_prompt_attachments = 101`, `max_prompt_attachments = "many"`,
	} {
		l := load(t, config.Sources{File: writeFile(t, bad)})
		if l.MaxAttachmentBytes != 10<<20 || l.MaxPromptAttachments != 20 || l.MaxPromptAttachmentBytes != 20<<20 || len(l.Warnings) != 1 {
			t.Errorf("%s: %d, %d, %d and warnings %v", bad, l.MaxAttachmentBytes, l.MaxPromptAttachments, l.MaxPromptAttachmentBytes, l.Warnings)
		}
	}
}
