package config

import (
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// anyCase returns the environment names of a setting in upper and in lower case.
func anyCase(key string) []string { return []string{strings.ToUpper(key), key} }

func duration(at func(*Config) *time.Duration, least time.Duration) field {
	parse := func(raw string) (time.Duration, *badValue) { return parseDuration(raw, least) }
	return bind(at, parse, formatDuration)
}

// ParseDuration reads a duration in the form of the settings: seconds, or text such as 1h30m. Its error is a [*Misfit].
func ParseDuration(raw string) (time.Duration, error) {
	d, f := parseDuration(raw, 0)
	return d, f.misfit()
}

// FormatDuration writes a duration in the form of the settings.
func FormatDuration(d time.Duration) string { return formatDuration(d) }

// parseRetention reads a retention period. It returns zero for "off", which means for ever.
func parseRetention(raw string) (time.Duration, *badValue) {
	if strings.TrimSpace(raw) == "off" {
		return 0, nil
	}
	d, f := parseDuration(raw, 0)
	if f != nil {
		f.fix += "; or write off, to keep it for ever"
	}
	return d, f
}

// MostKept is the maximum of keep_last and keep_daily.
const MostKept = 1_000_000

// parseKept reads a number of versions to keep. 0 and off mean all versions.
func parseKept(raw string) (int, *badValue) {
	raw = strings.TrimSpace(raw)
	if raw == "off" {
		return 0, nil
	}
	n, err := strconv.Atoi(raw)
	if err != nil || n < 0 || n > MostKept {
		return 0, badValuef("write a number of versions up to a million, or off", "is no number of versions")
	}
	return n, nil
}

func formatKept(n int) string {
	if n == 0 {
		return "off"
	}
	return strconv.Itoa(n)
}

func formatRetention(d time.Duration) string {
	if d == 0 {
		return "off"
	}
	return formatDuration(d)
}

func parseDuration(raw string, least time.Duration) (time.Duration, *badValue) {
	const fix = "write seconds, such as 90, or a duration, such as 90s, 1h30m or 30d"
	raw = strings.TrimSpace(raw)
	if days, ok := strings.CutSuffix(raw, "d"); ok {
		if n, err := strconv.ParseInt(days, 10, 16); err == nil {
			raw = strconv.FormatInt(24*n, 10) + "h"
		}
	}
	d, err := time.ParseDuration(raw)
	if seconds, err2 := strconv.ParseInt(raw, 10, 64); err2 == nil {
		if seconds > math.MaxInt64/int64(time.Second) || seconds < math.MinInt64/int64(time.Second) {
			return 0, badValuef(fix, "is too large")
		}
		d, err = time.Duration(seconds)*time.Second, nil
	}
	switch {
	case err != nil:
		return 0, badValuef(fix, "is not a duration")
	case d < 0:
		return 0, badValuef(fix, "is negative")
	case d < least:
		return 0, badValuef(fix, "is less than %s", formatDuration(least))
	}
	return d, nil
}

// formatDuration formats like Duration.String, without zero units at the end: 1h instead of 1h0m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

type sizeUnit struct {
	suffix string
	factor int64
}

// sizeUnits are in descending order. The last unit, bytes, matches every size.
var sizeUnits = []sizeUnit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}

// ParseSize reads a size in the form of the settings: bytes, or text such as 4MiB. Its error is a [*Misfit].
func ParseSize(raw string) (int64, error) {
	n, f := parseSize(raw)
	return n, f.misfit()
}

// FormatSize writes a size in the form of the settings.
func FormatSize(n int64) string { return formatSize(n) }

func parseSize(raw string) (int64, *badValue) {
	const fix = "write a number of bytes, or one with KiB, MiB or GiB, such as 4MiB"
	raw = strings.TrimSpace(raw)
	i := slices.IndexFunc(sizeUnits, func(u sizeUnit) bool { return strings.HasSuffix(raw, u.suffix) })
	unit := sizeUnits[i]
	n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(raw, unit.suffix)), 10, 64)
	switch {
	case err != nil:
		return 0, badValuef(fix, "is not a size")
	case n < 0:
		return 0, badValuef(fix, "is negative")
	case n == 0:
		return 0, badValuef(fix, "is zero")
	case n > math.MaxInt64/unit.factor:
		return 0, badValuef(fix, "is too large")
	}
	return n * unit.factor, nil
}

// mostHeld limits settings for data that requests hold in memory.
const mostHeld = 256 << 20

// parseHeld reads the size of data that is held in memory.
func parseHeld(raw string) (int64, *badValue) {
	n, f := parseSize(raw)
	if f == nil && n > mostHeld {
		return 0, badValuef("write at most 256MiB", "is too large")
	}
	return n, f
}

// mostAttached limits the number of attachments of a prompt.
const mostAttached = 100

// parseAttached reads a number of attachments.
func parseAttached(raw string) (int, *badValue) {
	n, err := strconv.Atoi(strings.TrimSpace(raw))
	if err != nil || n < 1 || n > mostAttached {
		return 0, badValuef("write a number from 1 to 100", "is no number of attachments")
	}
	return n, nil
}

func formatSize(n int64) string {
	i := slices.IndexFunc(sizeUnits, func(u sizeUnit) bool { return n%u.factor == 0 })
	return strconv.FormatInt(n/sizeUnits[i].factor, 10) + sizeUnits[i].suffix
}

func limit(at func(*Config) *Limit) field { return bind(at, parseLimit, Limit.String) }

func parseLimit(raw string) (Limit, *badValue) {
	const fix = "write a whole number above zero, auto or off"
	switch raw = strings.TrimSpace(raw); raw {
	case "auto":
		return Auto, nil
	case "off":
		return Off, nil
	}
	n, err := strconv.ParseInt(raw, 10, 32)
	switch {
	case err != nil:
		return 0, badValuef(fix, "is not a limit")
	case n < 0:
		return 0, badValuef(fix, "is negative")
	}
	return Limit(n), nil
}

// String returns the limit in the form of the configuration file.
func (l Limit) String() string {
	switch l {
	case Auto:
		return "auto"
	case Off:
		return "off"
	}
	return strconv.Itoa(int(l))
}

func onOff(at func(*Config) *bool) field { return bind(at, parseSwitch, strconv.FormatBool) }

func parseSwitch(raw string) (bool, *badValue) {
	switch strings.ToLower(strings.TrimSpace(raw)) {
	case "true", "1", "yes", "on":
		return true, nil
	case "false", "0", "no", "off":
		return false, nil
	}
	return false, badValuef("write true or false", "is neither true nor false")
}

func choice(of ...string) func(string) (string, *badValue) {
	last := len(of) - 1
	fix := "write " + strings.Join(of[:last], ", ") + " or " + of[last]
	return func(raw string) (string, *badValue) {
		if !slices.Contains(of, raw) {
			return "", badValuef(fix, "is not one of the choices")
		}
		return raw, nil
	}
}

func levelOf(c *Config) *slog.Level { return &c.LogLevel }

func parseLevel(raw string) (slog.Level, *badValue) {
	var level slog.Level
	name, f := choice("debug", "info", "warn", "error")(strings.ToLower(raw))
	if f == nil {
		// UnmarshalText accepts these four names, so there is no error.
		_ = level.UnmarshalText([]byte(name))
	}
	return level, f
}

func formatLevel(l slog.Level) string { return strings.ToLower(l.String()) }

func formatList(items []string) string { return strings.Join(items, ",") }
