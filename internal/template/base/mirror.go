package base

import (
	"bufio"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Source is one entry of apt's list of package sources.
type Source struct {
	URI     string
	Suites  []string
	Keyring string // file with the keys that sign the source; empty: the system's keys
	Trusted bool   // signatures are not verified
}

// serves reports whether the source has the release itself, and not only its updates.
func (s Source) serves(suite string) bool { return slices.Contains(s.Suites, suite) }

// Sources returns the package sources of apt in apt's order. etcApt is usually /etc/apt. Entries that cannot be read or
// parsed are left out.
func Sources(etcApt string) (found []Source) {
	found = oneLine(filepath.Join(etcApt, "sources.list"))
	parts, _ := filepath.Glob(filepath.Join(etcApt, "sources.list.d", "*"))
	for _, path := range parts {
		switch filepath.Ext(path) {
		case ".list":
			found = append(found, oneLine(path)...)
		case ".sources":
			found = append(found, stanzas(path)...)
		}
	}
	return slices.DeleteFunc(found, func(s Source) bool { return !fetchable(s.URI) })
}

// findSource returns the source of a suite. If no source lists the suite, it returns the source of the host's suite: an
// archive usually holds several releases.
func findSource(sources []Source, suite, host string) (Source, bool) {
	for _, wanted := range []string{suite, host} {
		i := slices.IndexFunc(sources, func(s Source) bool { return wanted != "" && s.serves(wanted) })
		if i >= 0 {
			return sources[i], true
		}
	}
	return Source{}, false
}

// fetchable reports whether debootstrap can fetch from the URI. It is false for a URI with a password, which would be
// copied into every sandbox.
func fetchable(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.User == nil && slices.Contains([]string{"http", "https", "file"}, u.Scheme)
}

// oneLine parses a file with lines of the form "deb [option=value] uri suite component…".
func oneLine(path string) (found []Source) {
	for line := range lines(path) {
		line, _, _ = strings.Cut(line, "#")
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "deb ")
		if !ok {
			continue
		}
		var s Source
		rest = strings.TrimSpace(rest)
		if strings.HasPrefix(rest, "[") {
			options, after, closed := strings.Cut(rest[1:], "]")
			if !closed {
				continue
			}
			for option := range strings.FieldsSeq(options) {
				key, value, _ := strings.Cut(option, "=")
				s.setOption(key, value)
			}
			rest = after
		}
		if words := strings.Fields(rest); len(words) >= 2 {
			s.URI, s.Suites = words[0], words[1:2]
			found = append(found, s)
		}
	}
	return found
}

// stanzas parses a file of "Key: value" lines with an empty line between two sources.
func stanzas(path string) (found []Source) {
	fields, last := map[string]string{}, ""
	end := func() {
		if slices.Contains(strings.Fields(fields["types"]), "deb") && !isNo(fields["enabled"]) {
			var s Source
			s.Suites = strings.Fields(fields["suites"])
			s.setOption("signed-by", fields["signed-by"])
			s.setOption("trusted", fields["trusted"])
			for uri := range strings.FieldsSeq(fields["uris"]) {
				s.URI = uri
				found = append(found, s)
			}
		}
		fields, last = map[string]string{}, ""
	}
	for line := range lines(path) {
		key, value, ok := strings.Cut(line, ":")
		switch {
		case strings.TrimSpace(line) == "":
			end()
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"):
			fields[last] += " " + strings.TrimSpace(line)
		case ok:
			last = strings.ToLower(strings.TrimSpace(key))
			fields[last] = strings.TrimSpace(value)
		}
	}
	end()
	return found
}

// setOption sets an option that debootstrap supports and ignores all others. It ignores a key that is written in the
// list itself or that gpgv cannot read; the system's keys are used then.
func (s *Source) setOption(key, value string) {
	switch strings.ToLower(key) {
	case "signed-by":
		if filepath.IsAbs(value) && filepath.Ext(value) == ".gpg" {
			s.Keyring = value
		}
	case "trusted":
		s.Trusted = strings.EqualFold(value, "yes") || strings.EqualFold(value, "true")
	}
}

func isNo(value string) bool {
	return slices.Contains([]string{"no", "false", "without", "off", "disable"}, strings.ToLower(value))
}

// osCodename returns the codename in an os-release file, or the empty string if there is none.
func osCodename(path string) string {
	for line := range lines(path) {
		if name, ok := strings.CutPrefix(line, "VERSION_CODENAME="); ok {
			return strings.Trim(strings.TrimSpace(name), `"'`)
		}
	}
	return ""
}

// lines yields the lines of a file, or none if it cannot be read.
func lines(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		file, err := os.Open(path)
		if err != nil {
			return
		}
		defer file.Close()
		for in := bufio.NewScanner(file); in.Scan(); {
			if !yield(in.Text()) {
				return
			}
		}
	}
}
