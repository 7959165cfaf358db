package driver_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/driver"
)

func mount(source, target string) func(*driver.Spec) {
	return func(s *driver.Spec) { s.Mounts = append(s.Mounts, driver.Mount{Source: source, Target: target}) }
}

func service(at, upstream string) func(*driver.Spec) {
	return func(s *driver.Spec) {
		if s.Services == nil {
			s.Services = map[string]string{}
		}
		s.Services[at] = upstream
	}
}

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
		{"longest base", func(s *driver.Spec) { s.Base = strings.Repeat("x", 4096) }, true},
		{"too long base", func(s *driver.Spec) { s.Base = strings.Repeat("x", 4097) }, false},
		{"NUL in the base", func(s *driver.Spec) { s.Base = "/a\x00" }, false},
		{"limits", func(s *driver.Spec) { s.Limits = driver.Limits{CPU: 0.5, MemoryBytes: 1, DiskBytes: 1, Processes: 1} }, true},
		{"negative cores", func(s *driver.Spec) { s.Limits.CPU = -1 }, false},
		{"no number of cores", func(s *driver.Spec) { s.Limits.CPU = math.NaN() }, false},
		{"endless cores", func(s *driver.Spec) { s.Limits.CPU = math.Inf(1) }, false},
		{"negative memory", func(s *driver.Spec) { s.Limits.MemoryBytes = -1 }, false},
		{"negative disk", func(s *driver.Spec) { s.Limits.DiskBytes = -1 }, false},
		{"negative processes", func(s *driver.Spec) { s.Limits.Processes = -1 }, false},
		{"a mount", mount("/a", "/opt/a"), true},
		{"mount of a relative path", mount("a", "/opt/a"), false},
		{"mount that climbs", mount("/a/../b", "/opt/a"), false},
		{"mount on a relative path", mount("/a", "opt"), false},
		{"mount on the root", mount("/a", "/"), false},
		{"mount that climbs inside", mount("/a", "/opt/.."), false},
		{"two mounts on one path", func(s *driver.Spec) { mount("/a", "/b")(s); mount("/c", "/b")(s) }, false},
		{"too many mounts", func(s *driver.Spec) {
			for i := range 17 {
				mount("/a", fmt.Sprintf("/opt/%d", i))(s)
			}
		}, false},
		{"egress", func(s *driver.Spec) { s.Egress = []string{"*.example.com:443", "all"} }, true},
		{"empty egress entry", func(s *driver.Spec) { s.Egress = []string{""} }, false},
		{"too long egress entry", func(s *driver.Spec) { s.Egress = []string{strings.Repeat("x", 301)} }, false},
		{"too much egress", func(s *driver.Spec) { s.Egress = slices.Repeat([]string{"a:1"}, 257) }, false},
		{"a service", service("127.0.0.1:80", "http://127.0.0.1:4000"), true},
		{"service elsewhere", service("127.0.0.2:80", "http://127.0.0.1:4000"), false},
		{"service on a name", service("localhost:80", "http://127.0.0.1:4000"), false},
		{"service on port 0", service("127.0.0.1:0", "http://127.0.0.1:4000"), false},
		{"service on a port in another spelling", service("127.0.0.1:080", "http://127.0.0.1:4000"), false},
		{"service to nowhere", service("127.0.0.1:80", ""), false},
		{"too many services", func(s *driver.Spec) {
			for i := range 17 {
				service(fmt.Sprintf("127.0.0.1:%d", 80+i), "http://127.0.0.1:4000")(s)
			}
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := driver.Spec{Key: driver.Key{Sandbox: "s-1", Incarnation: 1}, Tenant: "acme"}
			tt.change(&spec)
			err := spec.Validate()
			if tt.ok != (err == nil) || (err != nil && !errors.Is(err, driver.ErrInvalid)) {
				t.Errorf("got %v", err)
			}
		})
	}
}
