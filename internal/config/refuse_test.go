package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/config"
)

func TestBadValuesRefuseToStart(t *testing.T) {
	cases := []struct{ key, raw, why string }{
		{"listen", "7070", "is not host:port"},
		{"listen", "127.0.0.1:http", "has no port"},
		{"listen", "127.0.0.1:70000", "has no port"},
		{"listen", "exa mple:80", "neither a name nor an IP"},
		{"data_dir", "~/berth", "begins with ~"},
		{"data_dir", "a\x00b", "NUL"},
		{"database_url", "mysql://db/x", "does not begin with postgres"},
		{"database_url", "host=db password=hunter2hunter2", "does not begin with postgres"},
		{"database_url", "postgres://", "names no host"},
		{"database_url", "postgres:db", "names no host"},
		{"database_url", "postgres://u:hunter2/hunter2@db/x", "is not a readable URL"},
		{"database_url", "postgres://u:12/hunter2@db/x", "cuts it apart"},
		{"database_url", "postgres://u:12#hunter2@db/x", "cuts it apart"},
		{"object_store", "bucket/prefix", "is a relative path"},
		{"object_store", "gs://bucket", "unknown scheme"},
		{"object_store", "/a\x00b", "NUL"},
		{"object_store", "s3://B", "no valid bucket"},
		{"object_store", "s3://buck..et", "no valid bucket"},
		{"object_store", "s3://%zz", "is not a readable URL"},
		{"object_store", "s3://bucket?acl=public", "unknown parameter"},
		{"object_store", "s3://bucket?region=%zz", "is not a readable URL"},
		{"object_store", "s3://AKID:hunter2hunter2@bucket", "carries credentials"},
		{"object_store", "s3://bucket?endpoint=minio:9000", "no http or https URL"},
		{"object_store", "file://relative/path", "absolute path"},
		{"message_store", "postgres://x", "does not begin with dynamodb"},
		{"message_store", "dynamodb://", "no valid table"},
		{"message_store", "dynamodb://table/rest", "no valid table"},
		{"message_store", "dynamodb://%zz", "is not a readable URL"},
		{"allowed_hosts", "good.example,http://bad", "no host name"},
		{"allowed_hosts", "bad.example:80", "no host name"},
		{"allowed_hosts", "a..b", "no host name"},
		{"api_key", "tooshort", "is too short"},
		{"api_key", strings.Repeat("k", 201), "is too long"},
		{"api_key", "twenty characters at least", "contains a space"},
		{"api_key", "zwanzig-zeichen-ä-mindestens", "contains a space or an unprintable"},
		{"secret_key", "short", "is too short"},
		{"default_template", "No Name", "is not a name"},
		{"default_driver", "-x", "is not a name"},
		{"log_format", "xml", "not one of the choices"},
		{"log_level", "loud", "not one of the choices"},
		{"sandbox_profile_type", "huge", "not one of the choices"},
		{"sandbox_runtime_enabled", "maybe", "neither true nor false"},
		{"s3_bucket_agent_docs", "Not A Bucket", "is not a bucket name"},
		{"modal_token_id", "a b", "contains a space"},
		{"daytona_api_url", "daytona.example", "does not begin with http"},
		{"daytona_api_url", "https://", "names no host"},
		{"daytona_api_url", "https://%zz", "is not a readable URL"},
		{"daytona_api_url", "https://user@daytona.example", "carries credentials"},
	}
	for _, c := range cases {
		t.Run(c.key+"="+c.raw, func(t *testing.T) {
			name := "BERTH_" + strings.ToUpper(c.key)
			for _, p := range problems(t, config.Sources{Env: env(name, c.raw)}) {
				if p.Key == c.key {
					checkProblem(t, p, "env "+name, c.why)
					return
				}
			}
			t.Errorf("no problem names %s", c.key)
		})
	}
}

func checkProblem(t *testing.T, p config.Problem, origin, why string) {
	t.Helper()
	if p.Origin != origin {
		t.Errorf("origin %q, want %q", p.Origin, origin)
	}
	if !strings.Contains(p.Why, why) {
		t.Errorf("why %q does not say %q", p.Why, why)
	}
	if p.Fix == "" {
		t.Error("nothing says what to write instead")
	}
	if line := p.String(); strings.Contains(line, "hunter2") || strings.Contains(line, "\n") {
		t.Errorf("leaks or breaks the line: %q", line)
	}
}

func TestGoodValuesAreAccepted(t *testing.T) {
	cases := []struct{ key, raw string }{
		{"listen", "berth.example.com:443"},
		{"listen", "[fe80::1%lo]:0"},
		{"database_url", "postgres://u:p%40ss@db:5432/x?sslmode=disable"},
		{"database_url", "postgresql:///x?host=/var/run/postgresql"},
		{"object_store", "none"},
		{"object_store", "/srv/objects"},
		{"object_store", "file:///srv/objects"},
		{"object_store", "s3://bucket/pre/fix?endpoint=http://127.0.0.1:9000&region=us-east-1"},
		{"message_store", "dynamodb://Messages?endpoint=http://127.0.0.1:8000"},
		{"message_store", "dynamodb://Messages?region=eu-west-1&profile=work"},
		{"allowed_hosts", "a.example,10.0.0.1,my_host"},
		{"log_level", "warn"},
		{"default_template", "claude_code"},
	}
	for _, c := range cases {
		l := load(t, config.Sources{Env: env("BERTH_"+strings.ToUpper(c.key), c.raw)})
		for _, row := range l.Rows() {
			want := strings.Replace(c.raw, "p%40ss", "(masked)", 1)
			if row.Key == c.key && row.Value != want {
				t.Errorf("%s = %q became %q", c.key, c.raw, row.Value)
			}
		}
	}
}

func TestAllProblemsAreReportedTogether(t *testing.T) {
	path := writeFile(t, "lisen = \"x\"\nlog_level = 3\n")
	_, err := config.Load(config.Sources{
		File:  path,
		Env:   env("BERTH_API_KEY", "short", "MODAL_TOKEN_ID", "ak"),
		Flags: map[string]string{"listen": "nowhere", "colour": "red"},
	})
	if err == nil {
		t.Fatal("loaded")
	}
	for _, part := range []string{
		"lisen (file " + path + ":1) is not a setting; did you mean listen?",
		"log_level (file " + path + ":2) has a type that does not fit; write text in double quotes",
		`listen = "nowhere" (flag --listen) is not host:port; write host:port, such as 127.0.0.1:7070`,
		`api_key = "(masked)" (env BERTH_API_KEY) is too short`,
		"modal_token_secret is missing",
		"--colour is not a configuration flag",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error does not say %q:\n%v", part, err)
		}
	}
}

func TestModalSecretNeedsItsID(t *testing.T) {
	found := problems(t, config.Sources{Env: env("MODAL_TOKEN_SECRET", "as-0123456789abcdef")})
	if len(found) != 1 || found[0].Key != "modal_token_id" {
		t.Errorf("problems %v", found)
	}
}

func TestUnknownKeysNameLineAndNearestKey(t *testing.T) {
	cases := []struct{ name, body, key, line, fix string }{
		{"slip", "\n\nlissten = \"x\"", "lissten", ":3", "did you mean listen?"},
		{"dashes", "api-key = \"x\"", "api-key", ":1", "did you mean api_key?"},
		{"environment name", "DATABASE_URL = \"x\"", "DATABASE_URL", ":1", "did you mean database_url?"},
		{"established name", "sandbox_sync_stale_threshold = 1", "sandbox_sync_stale_threshold", ":1", "did you mean sync_stale_threshold?"},
		{"far away", "colour = \"red\"", "colour", ":1", "remove it"},
		{"in a section", "\n[server]\nlisten = \"x\"", "server", ":2", "write listen at the top of the file"},
		{"dotted", "log_format = \"text\"\nlog.colour.depth = 3", "log", ":2", "remove it"},
		{"template", "[template.x]\na = 1", "template", ":1", "did you mean templates?"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := writeFile(t, c.body)
			found := problems(t, config.Sources{File: path})
			if len(found) != 1 {
				t.Fatalf("problems %v", found)
			}
			if p := found[0]; p.Key != c.key || p.Origin != "file "+path+c.line || !strings.Contains(p.Fix, c.fix) {
				t.Errorf("%v, want %s at %s with %q", p, c.key, c.line, c.fix)
			}
		})
	}
}

func TestBadTOMLSaysWhereAndWhy(t *testing.T) {
	cases := []struct{ name, body, want string }{
		{"no value", "listen = \"a:1\"\nlog_level = = 3", "line 2, column 13"},
		{"twice", "listen = \"a:1\"\nlisten = \"b:1\"", "already been defined"},
		{"unquoted", "listen = localhost", `expected value but found "localhost"`},
		{"unquoted secret", "api_key = thunter2hunter2", "line 1, column 11: the value of api_key is not valid TOML; put text in double quotes"},
		{"unquoted misspelt secret", "api-key = thunter2hunter2", "the value of api-key is not valid TOML"},
		{"number for a secret", "secret_key = 99999999999999999999", "the value of secret_key is not valid"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := writeFile(t, c.body)
			_, err := config.Load(config.Sources{File: path, Env: env()})
			if err == nil {
				t.Fatal("loaded")
			}
			for _, part := range []string{path, c.want} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "99999") {
				t.Errorf("leaks: %v", err)
			}
		})
	}
}

func TestUnreadableFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.toml")
	if err := os.WriteFile(large, []byte(strings.Repeat("#\n", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "absent.toml"): "no such file",
		dir:                               "is a directory",
		large:                             "larger than 1 MiB",
	} {
		_, err := config.Load(config.Sources{File: path, Env: env()})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--config") {
			t.Errorf("%s: %v, want %q and what to do", path, err, want)
		}
	}
	_, err := config.Load(config.Sources{File: filepath.Join(dir, "absent.toml")})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
}

func TestTOMLTypes(t *testing.T) {
	path := writeFile(t, `
allowed_hosts = ["a.example", "B.example"]
sandbox_auto_recover = false
sandbox_runtime_enabled = "no"
lease_ttl = 30
drain_timeout = "1m30s"
max_body_bytes = 2048
rate_limit = "off"
`)
	l := load(t, config.Sources{File: path})
	want := map[string]string{
		"allowed_hosts": "a.example,b.example", "sandbox_auto_recover": "false", "sandbox_runtime_enabled": "false",
		"lease_ttl": "30s", "drain_timeout": "1m30s", "max_body_bytes": "2KiB", "rate_limit": "off",
	}
	for _, row := range l.Rows() {
		if w, ok := want[row.Key]; ok && row.Value != w {
			t.Errorf("%s = %q, want %q", row.Key, row.Value, w)
		}
	}
}

func TestTOMLTypesThatDoNotFit(t *testing.T) {
	for body, fix := range map[string]string{
		`listen = 7070`:                "double quotes",
		`listen = true`:                "double quotes",
		`listen = ["a"]`:               "double quotes",
		`listen.host = "x"`:            "double quotes",
		`allowed_hosts = ["a", 3]`:     `["a", "b"]`,
		`sandbox_auto_recover = 1`:     "true or false",
		`api_key = 123456789012345678`: "double quotes",
		`templates = 3`:                "[templates.NAME]",
		`templates.x = 3`:              "[templates.x]",
		"[templates.\"No Name\"]":      "beginning with a letter",
	} {
		found := problems(t, config.Sources{File: writeFile(t, body)})
		if len(found) != 1 || !strings.Contains(found[0].Fix, fix) || strings.Contains(found[0].String(), "12345") {
			t.Errorf("%s: problems %v, want %q", body, found, fix)
		}
	}
	l := load(t, config.Sources{File: writeFile(t, "lease_ttl = [1]")})
	if len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0], "lease_ttl (file ") {
		t.Errorf("warnings %q", l.Warnings)
	}
}
