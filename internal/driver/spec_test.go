package driver_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/driver"
)

func TestSpecValidate(t *testing.T) {
	labels := func(n int, value string) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprintf("label-%02d", i)] = value
		}
		return m
	}
	for _, tt := range []struct {
		name   string
		change func(*driver.Spec)
		ok     bool
	}{
		{"as is", func(*driver.Spec) {}, true},
		{"uuid", func(s *driver.Spec) { s.Key.Sandbox = "00000000-0000-0000-0000-000000000000" }, true},
		{"longest sandbox", func(s *driver.Spec) { s.Key.Sandbox = strings.Repeat("x", 63) }, true},
		{"too long sandbox", func(s *driver.Spec) { s.Key.Sandbox = strings.Repeat("x", 64) }, false},
		{"no sandbox", func(s *driver.Spec) { s.Key.Sandbox = "" }, false},
		{"upper case", func(s *driver.Spec) { s.Key.Sandbox = "A" }, false},
		{"newline", func(s *driver.Spec) { s.Key.Sandbox = "a\n" }, false},
		{"no incarnation", func(s *driver.Spec) { s.Key.Incarnation = 0 }, false},
		{"negative incarnation", func(s *driver.Spec) { s.Key.Incarnation = -1 }, false},
		{"no tenant", func(s *driver.Spec) { s.Tenant = "" }, true},
		{"longest tenant", func(s *driver.Spec) { s.Tenant = strings.Repeat("x", 255) }, true},
		{"too long tenant", func(s *driver.Spec) { s.Tenant = strings.Repeat("x", 256) }, false},
		{"bytes as tenant", func(s *driver.Spec) { s.Tenant = "\xff" }, false},
		{"most labels", func(s *driver.Spec) { s.Labels = labels(16, strings.Repeat("x", 504)) }, true},
		{"too much in labels", func(s *driver.Spec) { s.Labels = labels(16, strings.Repeat("x", 505)) }, false},
		{"too many labels", func(s *driver.Spec) { s.Labels = labels(17, "") }, false},
		{"longest label", func(s *driver.Spec) { s.Labels = labels(1, strings.Repeat("x", 1024)) }, true},
		{"too long label", func(s *driver.Spec) { s.Labels = labels(1, strings.Repeat("x", 1025)) }, false},
		{"NUL in a label", func(s *driver.Spec) { s.Labels = labels(1, "\x00") }, false},
		{"label without name", func(s *driver.Spec) { s.Labels = map[string]string{"": "x"} }, false},
		{"label name of its own", func(s *driver.Spec) { s.Labels = map[string]string{"Ü": "x"} }, false},
		{"any env value", func(s *driver.Spec) { s.Env = map[string]string{"A": "\n=\xff"} }, true},
		{"env without name", func(s *driver.Spec) { s.Env = map[string]string{"": "canary"} }, false},
		{"env name with =", func(s *driver.Spec) { s.Env = map[string]string{"A=B": "canary"} }, false},
		{"env with NUL", func(s *driver.Spec) { s.Env = map[string]string{"A": "canary\x00"} }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := driver.Spec{Key: driver.Key{Sandbox: "s-1", Incarnation: 1}, Tenant: "acme"}
			tt.change(&spec)
			err := spec.Validate()
			if tt.ok != (err == nil) || (err != nil && !errors.Is(err, driver.ErrInvalid)) {
				t.Errorf("got %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}
