package driver

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The bounds on the data of one instance. They are small enough to be stored at every provider, if
// necessary in several of the provider's labels.
const (
	MaxLabels      = 16
	MaxLabelValue  = 1 << 10 // bytes
	MaxLabelsTotal = 8 << 10 // bytes, names and values together
	MaxTenant      = 255     // bytes
	MaxPath        = 4 << 10 // bytes, of Spec.Base and of each path of a Mount
	MaxMounts      = 16
	MaxEgress      = 256
	MaxEgressEntry = 300 // bytes
	MaxServices    = 16
	MaxUpstream    = 2 << 10 // bytes
	MaxCPU         = 1 << 16 // cores
)

var (
	sandboxName = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
	loopback    = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	labelName   = regexp.MustCompile(`^[a-z0-9][a-z0-9._/-]{0,62}$`)
)

// Validate checks the rules for a Spec that are the same for every driver. It returns ErrInvalid if one
// is violated. A driver calls it first in Create. A label value may be any UTF-8 text without NUL.
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
	if len(s.Base) > MaxPath || !plainText(s.Base) {
		return invalid("base is longer than %d bytes or not plain text", MaxPath)
	}
	return cmp.Or(validLabels(s.Labels), validLimits(s.Limits), validMounts(s.Mounts), validNet(s.Egress, s.Services))
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

func validLimits(l Limits) error {
	if math.IsNaN(l.CPU) || math.IsInf(l.CPU, 0) || l.CPU < 0 || l.CPU > MaxCPU {
		return invalid("%v is no number of cores", l.CPU)
	}
	if l.MemoryBytes < 0 || l.DiskBytes < 0 || l.Processes < 0 {
		return invalid("a limit is negative")
	}
	return nil
}

func validMounts(mounts []Mount) error {
	if len(mounts) > MaxMounts {
		return invalid("%d mounts are more than %d", len(mounts), MaxMounts)
	}
	seen := map[string]bool{}
	for _, m := range mounts {
		if !validPath(m.Source) {
			return invalid("mount source %q is not an absolute path as path.Clean leaves it", m.Source)
		}
		if !validPath(m.Target) || m.Target == "/" || seen[m.Target] {
			return invalid("mount target %q is not a clean absolute path, or there twice", m.Target)
		}
		seen[m.Target] = true
	}
	return nil
}

func validPath(p string) bool {
	return len(p) <= MaxPath && plainText(p) && path.IsAbs(p) && path.Clean(p) == p
}

// validNet checks the sizes of egress and services, and the addresses of services. Package egress
// interprets the rest.
func validNet(egress []string, services map[string]string) error {
	if len(egress) > MaxEgress {
		return invalid("%d egress entries are more than %d", len(egress), MaxEgress)
	}
	for _, e := range egress {
		if e == "" || len(e) > MaxEgressEntry || !plainText(e) {
			return invalid("egress entry %.300q is empty, longer than %d bytes or not plain text", e, MaxEgressEntry)
		}
	}
	if len(services) > MaxServices {
		return invalid("%d services are more than %d", len(services), MaxServices)
	}
	for at, upstream := range services {
		addr, err := netip.ParseAddrPort(at)
		if err != nil || addr.Addr() != loopback || addr.Port() == 0 || addr.String() != at {
			return invalid("service %.100q is not 127.0.0.1:port", at)
		}
		if upstream == "" || len(upstream) > MaxUpstream || !plainText(upstream) {
			return invalid("service %s leads nowhere, or its address is longer than %d bytes", at, MaxUpstream)
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
