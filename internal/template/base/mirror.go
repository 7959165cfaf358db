package base

import (
	"bufio"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Source is one place that apt fetches packages from.
type Source struct {
	URI     string
	Suites  []string
	Keyring string // file of the keys that sign it; empty: those of the system
	Trusted bool   // signatures are not asked for
}

// serves reports whether the source has that release itself, not only its updates.
func (s Source) serves(suite string) bool { return slices.Contains(s.Suites, suite) }

// Sources reads where apt under the given directory, usually /etc/apt, fetches packages from, in the
// order that apt does. What cannot be read or understood is left out.
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

// find is the source of a suite. Another suite of the same archive does for one that nobody lists: an
// archive holds several releases.
func find(sources []Source, suite, host string) (Source, bool) {
	for _, wanted := range []string{suite, host} {
		i := slices.IndexFunc(sources, func(s Source) bool { return wanted != "" && s.serves(wanted) })
		if i >= 0 {
			return sources[i], true
		}
	}
	return Source{}, false
}

// fetchable leaves out what debootstrap cannot fetch from, and addresses with a password: they would
// be copied into every sandbox.
func fetchable(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.User == nil && slices.Contains([]string{"http", "https", "file"}, u.Scheme)
}

// oneLine reads the form "deb [option=value] uri suite component…".
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
				s.set(key, value)
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

// stanzas reads the form of "Key: value" lines with an empty line between two sources.
func stanzas(path string) (found []Source) {
	fields, last := map[string]string{}, ""
	end := func() {
		if slices.Contains(strings.Fields(fields["types"]), "deb") && !isNo(fields["enabled"]) {
			var s Source
			s.Suites = strings.Fields(fields["suites"])
			s.set("signed-by", fields["signed-by"])
			s.set("trusted", fields["trusted"])
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

// set takes the options that debootstrap can be told. A key that stands in the file itself, or one
// that gpgv cannot read, is left to the keys of the system.
func (s *Source) set(key, value string) {
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

// release is the codename that an os-release file tells; empty: none.
func release(path string) string {
	for line := range lines(path) {
		if name, ok := strings.CutPrefix(line, "VERSION_CODENAME="); ok {
			return strings.Trim(strings.TrimSpace(name), `"'`)
		}
	}
	return ""
}

// lines are those of a file; none if it cannot be read.
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
