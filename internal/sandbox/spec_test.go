package sandbox

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

func entries(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("A%d", i)] = ""
	}
	return m
}

func TestEnvironmentAndMetadataAreBounded(t *testing.T) {
	one := func(name, value string) map[string]string { return map[string]string{name: value} }
	for _, c := range []struct {
		name    string
		entries map[string]string
		says    string // empty: it is fine
	}{
		{"none", nil, ""},
		{"as many as possible", entries(64), ""},
		{"one too many", entries(65), "at most 64 entries"},
		{"long name", one(strings.Repeat("A", 256), ""), ""},
		{"longer name", one(strings.Repeat("A", 257), ""), "at most 256 bytes"},
		{"as much as possible", one("A", strings.Repeat("x", 16<<10-1)), ""},
		{"one byte more", one("AB", strings.Repeat("x", 16<<10-1)), "at most 16384 bytes"},
		{"NUL in a value", one("A", "x\x00y"), "NUL"},
		{"NUL in a name", one("A\x00", "x"), "NUL"},
	} {
		for what, err := range map[string]error{"environment": CheckEnv(c.entries), "metadata": CheckMetadata(c.entries)} {
			checkSays(t, c.name+" in "+what, err, c.says)
		}
	}
}

func TestNamesOfVariables(t *testing.T) {
	for _, name := range []string{"A", "_", "a_1", "PATH", "_0"} {
		checkSays(t, name, CheckEnv(map[string]string{name: "="}), "")
	}
	for name, begins := range map[string]string{
		"": "no name", "A B": `"A "`, "1A": `"1"`, "A-B": `"A-"`, "A\n": `"A\n"`, "Ä": `"Ä"`, "TOKEN=hidden": `"TOKEN="`,
	} {
		err := CheckEnv(map[string]string{name: "hidden"})
		checkSays(t, name, err, begins)
		if err != nil && strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: %v repeats what may be a secret", name, err)
		}
	}
	if err := CheckMetadata(map[string]string{"A=B c": ""}); err != nil {
		t.Errorf("metadata may have any name: %v", err)
	}
}

func checkSays(t *testing.T, what string, err error, says string) {
	t.Helper()
	switch {
	case says == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case says != "" && (err == nil || fault.CodeOf(err) != api.CodeInvalidRequest || !strings.Contains(err.Error(), says)):
		t.Errorf("%s: %v, want invalid_request that says %q", what, err, says)
	}
}
