package driver

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The bounds on what one instance carries. They are small enough for every provider to keep them,
// some in several of its own labels.
const (
	MaxLabels      = 16
	MaxLabelValue  = 1 << 10 // bytes
	MaxLabelsTotal = 8 << 10 // bytes, names and values together
	MaxTenant      = 255     // bytes
)

var (
	sandboxName = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
	labelName   = regexp.MustCompile(`^[a-z0-9][a-z0-9._/-]{0,62}$`)
)

// Validate says whether every driver must take this Spec. What it refuses is ErrInvalid; a driver
// calls it before anything else in Create. Label values are any UTF-8 text without NUL.
func (s Spec) Validate() error {
	if !sandboxName.MatchString(s.Key.Sandbox) {
		return invalid("sandbox id %q is not 1 to 63 characters of a-z, 0-9 and -", s.Key.Sandbox)
	}
	if s.Key.Incarnation < 1 {
		return invalid("incarnation %d is below 1", s.Key.Incarnation)
	}
	if len(s.Tenant) > MaxTenant || !plainText(s.Tenant) {
		return invalid("tenant is longer than %d bytes or not plain text", MaxTenant)
	}
	if err := validLabels(s.Labels); err != nil {
		return err
	}
	return validEnv(s.Env)
}

func validLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return invalid("%d labels are more than %d", len(labels), MaxLabels)
	}
	total := 0
	for name, value := range labels {
		if !labelName.MatchString(name) {
			return invalid("label name %q is not 1 to 63 characters of a-z, 0-9, '.', '_', '/' and -", name)
		}
		if len(value) > MaxLabelValue || !plainText(value) {
			return invalid("label %s is longer than %d bytes or not plain text", name, MaxLabelValue)
		}
		total += len(name) + len(value)
	}
	if total > MaxLabelsTotal {
		return invalid("labels of %d bytes are more than %d", total, MaxLabelsTotal)
	}
	return nil
}

// validEnv names the variable and never its value, which may be a secret.
func validEnv(env map[string]string) error {
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return invalid("environment name %q is empty or holds = or NUL", name)
		}
		if strings.Contains(value, "\x00") {
			return invalid("environment variable %s holds a NUL", name)
		}
	}
	return nil
}

func plainText(s string) bool {
	return utf8.ValidString(s) && !strings.Contains(s, "\x00")
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
