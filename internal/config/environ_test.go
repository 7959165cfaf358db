package config_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/config"
)

func TestMisspeltVariableWarns(t *testing.T) {
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "BERTH_") {
			t.Setenv(name, "") // counts as not set
		}
	}
	for name, value := range map[string]string{
		"BERTH_LISTN": "127.0.0.1:1", "BERTH_ZZZZ": "x", "BERTH_TEMPLATE": "x", "BERTH_EMPTY": "",
		"BERTH_LISTEN": "127.0.0.1:2", "BERTH_SERVER": "http://127.0.0.1:2", "BERTH_CONFIG": "",
		"BERTH_SERVICE_HOST": "10.0.0.1", "BERTH_PORT_7070_TCP_PORT": "7070",
	} {
		t.Setenv(name, value)
	}
	want := []string{
		"BERTH_LISTN is not a setting and has no effect; did you mean BERTH_LISTEN?",
		"BERTH_TEMPLATE is not a setting and has no effect; unset it, or see `berth config` for the settings",
		"BERTH_ZZZZ is not a setting and has no effect; unset it, or see `berth config` for the settings",
	}
	if l := load(t, config.Sources{Env: os.LookupEnv}); !slices.Equal(l.Warnings, want) {
		t.Errorf("warnings %q", l.Warnings)
	}
	if l := load(t, config.Sources{Env: env()}); len(l.Warnings) > 0 {
		t.Errorf("variables that the source lacks warn: %q", l.Warnings)
	}
	for value, warns := range map[string]bool{"8080": true, "tcp://10.0.0.1:7070": false} {
		t.Setenv("BERTH_PORT", value)
		if l := load(t, config.Sources{Env: os.LookupEnv}); (len(l.Warnings) > len(want)) != warns {
			t.Errorf("BERTH_PORT=%s: warnings %q", value, l.Warnings)
		}
	}
}
