package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/testkit"
)

const canary = "canary-0123456789-canary"

// withCanaries sets every secret to a value that holds the canary.
func withCanaries(t *testing.T) *config.Loaded {
	t.Helper()
	pairs := []string{"MODAL_TOKEN_ID", "ak-1"}
	for _, s := range config.Settings() {
		switch {
		case s.Key == "database_url":
			pairs = append(pairs, s.Env[0], "postgres://berth:"+canary+"@db/x?sslpassword=q"+canary)
		case s.Secret:
			pairs = append(pairs, s.Env[0], canary+s.Key)
		}
	}
	return load(t, config.Sources{Env: env(pairs...)})
}

func TestPrintShowsOriginsAndMasksSecrets(t *testing.T) {
	l := withCanaries(t)
	var out bytes.Buffer
	if err := l.Print(&out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), canary[:5]) {
		t.Errorf("shows more than four characters of a secret:\n%s", out.String())
	}
	for _, line := range []string{
		"listen                         127.0.0.1:7070                                                 default",
		"api_key                        cana…(masked)                                                  env BERTH_API_KEY",
		"database_url                   postgres://berth:(masked)@db/x?sslpassword=(masked)            env BERTH_DATABASE_URL",
	} {
		if !strings.Contains(squeeze(out.String()), squeeze(line)) {
			t.Errorf("no line %q in\n%s", line, out.String())
		}
	}
	if err := l.Print(failing{}); err == nil {
		t.Error("a failed write is not reported")
	}
}

// What is wrong with a configuration is seen beside what is right with it.
func TestRefusedConfigurationIsShown(t *testing.T) {
	l, err := config.Load(config.Sources{
		Env: env("BERTH_LISTEN", "no\nwhere", "BERTH_DATA_DIR", "~/x", "BERTH_API_KEY", canary[:16], "BERTH_LOG_LEVEL", "debug", "MODAL_TOKEN_ID", "ak-1"),
	})
	var refused *config.Error
	if !errors.As(err, &refused) || len(refused.Problems) != 4 || l == nil {
		t.Fatalf("%+v, %v", l, err)
	}
	rows := map[string]config.Row{}
	for _, r := range l.Rows() {
		rows[r.Key] = r
	}
	for _, want := range []config.Row{
		{Key: "listen", Value: `no\nwhere`, Origin: "env BERTH_LISTEN", Problem: "is not host:port; write host:port, such as 127.0.0.1:7070"},
		{Key: "data_dir", Value: "~/x", Origin: "env BERTH_DATA_DIR", Problem: "begins with ~, which only a shell expands; write the whole path"},
		{Key: "api_key", Value: "cana…(masked)", Origin: "env BERTH_API_KEY", Problem: rows["api_key"].Problem},
		{Key: "modal_token_secret", Origin: "default", Problem: "is missing while modal_token_id is set; set MODAL_TOKEN_SECRET too"},
		{Key: "fake_driver_dir", Origin: "default"},
		{Key: "log_level", Value: "debug", Origin: "env BERTH_LOG_LEVEL"},
	} {
		if rows[want.Key] != want {
			t.Errorf("%+v, want %+v", rows[want.Key], want)
		}
	}
	var out bytes.Buffer
	if err := l.Print(&out); err != nil || !strings.Contains(squeeze(out.String()), `no\nwhere env BERTH_LISTEN !`) || strings.Count(out.String(), "!") != 4 {
		t.Errorf("%v in\n%s", err, &out)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

func TestConfigNeverFormatsASecret(t *testing.T) {
	l := withCanaries(t)
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("loaded", "config", l.Config, "key", l.APIKey, "db", l.DatabaseURL)
	}
	encoded, err := json.Marshal(map[string]any{"key": l.APIKey, "db": l.DatabaseURL})
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{log.String(), string(encoded)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		texts = append(texts, fmt.Sprintf(verb, l.APIKey), fmt.Sprintf(verb, l.DatabaseURL), fmt.Sprintf(verb, l.Config))
	}
	hex := fmt.Sprintf("%x", canary)
	for _, text := range texts {
		if strings.Contains(text, canary) || strings.Contains(text, hex) {
			t.Errorf("leaks: %s", text)
		}
	}
}

func TestSecretsListsEverySecretInForce(t *testing.T) {
	l := withCanaries(t)
	got := l.Secrets()
	for _, s := range config.Settings() {
		if s.Secret && s.Key != "database_url" && !slices.Contains(got, canary+s.Key) {
			t.Errorf("%s is missing", s.Key)
		}
	}
	for _, want := range []string{l.DatabaseURL.Reveal(), canary, "q" + canary, l.APIKey.Reveal()} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if got := load(t, config.Sources{}).Secrets(); len(got) != 0 {
		t.Errorf("defaults have secrets %q", got)
	}
}

func TestMasks(t *testing.T) {
	for raw, want := range map[config.Secret]string{
		"":                     "",
		"fifteen-letters":      "(masked)",
		"sixteen--letters":     "sixt…(masked)",
		"äöüß-0123456789":      "äöüß…(masked)",
		"https://u:p@x/abcdef": "http…(masked)",
		"ääääääää":             "ääää…(masked)",
		"\U0001F680\U0001F680\U0001F680\U0001F680": "(masked)",
	} {
		if got := raw.String(); got != want {
			t.Errorf("%q masks as %q, want %q", raw.Reveal(), got, want)
		}
	}
	for raw, want := range map[config.DSN]string{
		"":                                "",
		"postgres://u@db/x":               "postgres://u@db/x",
		"postgres://u:pw@db/x?sslkey=/k":  "postgres://u:(masked)@db/x?sslkey=/k",
		"postgres://u:a@b@db/x":           "postgres://u:(masked)@db/x",
		"postgres://u:1/word@db/x":        "post…(masked)",
		"postgres://u:1?word@db/x":        "post…(masked)",
		"postgres://u:1#word@db/x":        "post…(masked)",
		"postgres://u:1%zz@db/x":          "post…(masked)",
		"https://token@host/x?api_key=12": "https://(masked)@host/x?api_key=(masked)",
	} {
		if got := raw.String(); got != want {
			t.Errorf("%q masks as %q, want %q", raw.Reveal(), got, want)
		}
	}
}

func TestReadableFileWithSecretWarns(t *testing.T) {
	path := writeFile(t, `api_key = "`+canary+`"`)
	if l := load(t, config.Sources{File: path}); len(l.Warnings) != 0 {
		t.Errorf("a private file warns: %q", l.Warnings)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	l := load(t, config.Sources{File: path})
	if len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0], "chmod 600") {
		t.Errorf("warnings %q", l.Warnings)
	}
	plain := writeFile(t, `log_format = "text"`)
	if err := os.Chmod(plain, 0o644); err != nil {
		t.Fatal(err)
	}
	if l := load(t, config.Sources{File: plain}); len(l.Warnings) != 0 {
		t.Errorf("a file without secrets warns: %q", l.Warnings)
	}
}

func TestTableIsConsistent(t *testing.T) {
	keys, envs, flags := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range config.Settings() {
		if keys[s.Key] || s.Key == "" || s.Help == "" || s.Kind == "" {
			t.Errorf("row %+v is incomplete or repeated", s.Key)
		}
		keys[s.Key] = true
		if s.Env[0] != "BERTH_"+strings.ToUpper(s.Key) {
			t.Errorf("%s has no name of its own in the environment", s.Key)
		}
		for _, name := range s.Env {
			if envs[name] {
				t.Errorf("%s belongs to two settings", name)
			}
			envs[name] = true
		}
		if s.Flag != "" && flags[s.Flag] {
			t.Errorf("flag %s belongs to two settings", s.Flag)
		}
		flags[s.Flag] = true
		if s.Secret && s.Flag != "" && s.Key != "database_url" {
			t.Errorf("%s would show in the process list", s.Key)
		}
		if s.Secret && s.Tuning {
			t.Errorf("%s is a secret that a warning would print", s.Key)
		}
	}
}

func TestReferencePageIsCurrent(t *testing.T) {
	testkit.Golden(t, "../../docs/reference/configuration.md", config.Reference())
}
