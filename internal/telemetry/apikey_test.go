package telemetry_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/testkit"
)

var unknownKey = "berth_" + strings.Repeat("0aZ", 16) + "9"

func TestKeysNobodyMadeKnownAreHidden(t *testing.T) {
	testkit.Proves(t, "E5")
	for name, r := range map[string]*telemetry.Redactor{"empty": {}, "with secrets": redactor(t, canaries...)} {
		for text, want := range map[string]string{
			unknownKey:                           "[redacted]",
			"GET /" + unknownKey + "/x":          "GET /[redacted]/x",
			"bberth_berth_" + unknownKey[6:]:     "bberth_[redacted]",
			unknownKey + unknownKey:              "[redacted][redacted]",
			"cut: " + unknownKey[:54]:            "cut: " + unknownKey[:54],
			"berth_" + strings.Repeat("0-", 40):  "berth_" + strings.Repeat("0-", 40),
			"BERTH_" + strings.Repeat("abc", 20): "BERTH_" + strings.Repeat("abc", 20),
			"the berth_ of a ship":               "the berth_ of a ship",
		} {
			if got := r.String(text); got != want {
				t.Errorf("%s: %q became %q, want %q", name, text, got, want)
			}
		}
	}
}

func TestKeysThatComeInPiecesAreHidden(t *testing.T) {
	var out bytes.Buffer
	w := new(telemetry.Redactor).Writer(&out)
	for _, b := range []byte("a" + unknownKey + " berth_") {
		if _, err := w.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil || out.String() != "a[redacted] berth_" {
		t.Errorf("wrote %q, %v", &out, err)
	}
}
