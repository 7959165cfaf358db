package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/testkit"
)

type stringer struct{ S string }

func (s stringer) String() string { return "is " + s.S }

type holder struct {
	Name   string
	Bytes  []byte
	Array  [4]string
	Nested *holder
	Map    map[string]any
}

type valuer struct{ s string }

func (v valuer) LogValue() slog.Value { return slog.GroupValue(slog.String("inner", v.s)) }

func TestNoRecordCarriesASecret(t *testing.T) {
	testkit.Proves(t, "E5")
	for _, secret := range canaries {
		secret = strings.TrimSpace(secret)
		deep := holder{Name: secret, Bytes: []byte(secret), Array: [4]string{2: secret},
			Nested: &holder{Name: secret}, Map: map[string]any{secret: secret}}
		attrs := map[string]slog.Attr{
			"string":   slog.String("k", secret),
			"any":      slog.Any("k", any(secret)),
			"error":    slog.Any("k", fmt.Errorf("dial: %w", errors.New("bad key "+secret))),
			"bytes":    slog.Any("k", []byte(secret)),
			"stringer": slog.Any("k", stringer{secret}),
			"struct":   slog.Any("k", deep),
			"pointer":  slog.Any("k", &deep),
			"slice":    slog.Any("k", []string{"a", secret}),
			"map":      slog.Any("k", map[string]string{"a": secret}),
			"valuer":   slog.Any("k", valuer{secret}),
			"group":    slog.Group("g", slog.Group("h", slog.String("k", secret))),
			"key":      slog.String(secret, "v"),
			"message":  slog.String("k", "v"),
		}
		for _, format := range []string{"text", "json"} {
			for name, attr := range attrs {
				var out bytes.Buffer
				log := telemetry.NewLogger(&out, format, slog.LevelInfo, redactor(t, secret))
				message := "hello"
				if name == "message" {
					message += secret
				}
				log.With(attr).WithGroup("grp").InfoContext(telemetry.With(t.Context(), attr), message, attr)
				checkLine(t, format+" "+name, out.String(), secret)
				if format == "json" && !json.Valid(out.Bytes()) {
					t.Errorf("%s %s is no JSON: %s", format, name, out.String())
				}
			}
		}
	}
}

// checkLine looks for any eight bytes of the secret, so that half of one is
// found too.
func checkLine(t *testing.T, name, line, secret string) {
	t.Helper()
	if !strings.Contains(line, telemetry.Redacted) {
		t.Errorf("%s: nothing was redacted in %s", name, line)
	}
	for i := 0; i+8 <= len(secret); i++ {
		part := secret[i : i+8]
		if strings.Contains(line, part) && !strings.Contains(part, "-----") {
			t.Errorf("%s: %q got past: %s", name, part, line)
			return
		}
	}
}

func TestGroupNameIsRedacted(t *testing.T) {
	var out bytes.Buffer
	telemetry.NewLogger(&out, "text", slog.LevelInfo, redactor(t, "secret-0123456789")).
		WithGroup("secret-0123456789").Info("m", "k", "v")
	checkLine(t, "group name", out.String(), "secret-0123456789")
}

func TestRedactedNumberKeepsTheLogJSON(t *testing.T) {
	var out bytes.Buffer
	log := telemetry.NewLogger(&out, "json", slog.LevelInfo, redactor(t, "1234567890"))
	log.Info("count", "n", 1234567890)
	var record struct{ Level, Record string }
	if err := json.Unmarshal(out.Bytes(), &record); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if record.Level != "WARN" || !strings.Contains(record.Record, `"n":[redacted]`) {
		t.Errorf("record %+v", record)
	}
}

func TestContextFields(t *testing.T) {
	ctx := telemetry.With(t.Context(), slog.String(telemetry.FieldRequestID, "r1"), slog.String(telemetry.FieldTenant, "acme"))
	inner := telemetry.With(ctx, slog.String(telemetry.FieldSandboxID, "s1"), slog.String(telemetry.FieldTenant, "other"))
	cases := []struct {
		name string
		ctx  context.Context
		log  func(*slog.Logger) *slog.Logger
		want string
	}{
		{"none", t.Context(), plain, `{"level":"INFO","msg":"m","k":"v"}`},
		{"two", ctx, plain, `{"level":"INFO","msg":"m","k":"v","request_id":"r1","tenant":"acme"}`},
		{"replaced", inner, plain, `{"level":"INFO","msg":"m","k":"v","request_id":"r1","sandbox_id":"s1","tenant":"other"}`},
		{"said by the record", telemetry.With(ctx, slog.String("k", "w")), plain, `{"level":"INFO","msg":"m","k":"v","request_id":"r1","tenant":"acme"}`},
		{"with", ctx, func(l *slog.Logger) *slog.Logger { return l.With("a", 1) },
			`{"level":"INFO","msg":"m","a":1,"k":"v","request_id":"r1","tenant":"acme"}`},
		{"group", ctx, func(l *slog.Logger) *slog.Logger { return l.With("a", 1).WithGroup("g").With("b", 2) },
			`{"level":"INFO","msg":"m","a":1,"request_id":"r1","tenant":"acme","g":{"b":2,"k":"v"}}`},
		{"group without fields", t.Context(), func(l *slog.Logger) *slog.Logger { return l.WithGroup("g") },
			`{"level":"INFO","msg":"m","g":{"k":"v"}}`},
		{"empty group", ctx, func(l *slog.Logger) *slog.Logger { return slog.New(l.Handler().WithGroup("")) },
			`{"level":"INFO","msg":"m","k":"v","request_id":"r1","tenant":"acme"}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			c.log(telemetry.NewLogger(&out, "json", slog.LevelInfo, nil)).InfoContext(c.ctx, "m", "k", "v")
			if got := withoutTime(out.String()); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func plain(l *slog.Logger) *slog.Logger { return l }

// withoutTime drops the first member of a JSON record.
func withoutTime(line string) string {
	_, rest, _ := strings.Cut(line, ",")
	return "{" + strings.TrimSpace(rest)
}

func TestLevelIsKept(t *testing.T) {
	var out bytes.Buffer
	var level slog.LevelVar
	log := telemetry.NewLogger(&out, "text", &level, nil)
	log.Debug("quiet")
	level.Set(slog.LevelDebug)
	log.Debug("loud")
	if strings.Contains(out.String(), "quiet") || !strings.Contains(out.String(), "msg=loud") {
		t.Errorf("log %q", out.String())
	}
}

func TestLoggerSurvivesBrokenOutput(t *testing.T) {
	broken := errors.New("broken pipe")
	log := telemetry.NewLogger(failing{broken}, "text", slog.LevelInfo, nil)
	r := slog.Record{Level: slog.LevelInfo, Message: "m"}
	if err := log.Handler().Handle(t.Context(), r); !errors.Is(err, broken) {
		t.Errorf("Handle gave %v", err)
	}
}
