package config

import (
	"fmt"
	"strings"
)

const referenceHead = `# Configuration

<!-- Generated from the table of settings: BERTH_UPDATE_GOLDEN=1 go test ./internal/config -->

Every setting of ` + "`berth serve`" + ` can be given in a TOML file, in the environment and, where one is
named, by a flag. The strongest wins: default < file < environment < flag. ` + "`berth config`" + ` prints the
effective values and where each came from, with secrets masked.

- The file is the one ` + "`--config`" + ` or ` + "`BERTH_CONFIG`" + ` names; there is no other place Berth looks. Settings
  are top-level keys. An unknown key is an error. A ` + "`[templates.NAME]`" + ` section defines a template:
  [templates.md](templates.md) has its keys, and ` + "`berth template check`" + ` checks one.
- An environment variable that is set but empty counts as not set. Where a setting has several names,
  the first one listed wins. A name that begins with ` + "`BERTH_`" + ` and is none of them gets a warning.
- A duration is a number of seconds or text such as ` + "`\"90s\"`" + `, ` + "`\"1h30m\"`" + ` or ` + "`\"30d\"`" + `; a size is a number of bytes or
  text such as ` + "`\"4MiB\"`" + `; a limit is a number, ` + "`auto`" + ` or ` + "`off`" + `; a list is an array or comma-separated text.
- A value that makes no sense stops the start with a message, except for the tuning settings: those
  fall back to their default with a warning in the log.

`

// Reference returns the text of docs/reference/configuration.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	b.WriteString("| setting | environment | flag | kind | default | meaning |\n|---|---|---|---|---|---|\n")
	for _, s := range table {
		help := s.Help
		if s.Unused {
			help = "*Accepted, without effect in this version; setting it gets a warning.* " + help
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n",
			s.Key, quoted(s.Env), flagCell(s), kindCell(s), defaultCell(s), help)
	}
	return b.String()
}

func quoted(names []string) string {
	return "`" + strings.Join(names, "`, `") + "`"
}

func flagCell(s Setting) string {
	if s.Flag == "" {
		return ""
	}
	return "`--" + s.Flag + "`"
}

func kindCell(s Setting) string {
	cell := string(s.Kind)
	if s.Secret {
		cell += ", secret"
	}
	if s.Tuning {
		cell += ", tuning"
	}
	return cell
}

func defaultCell(s Setting) string {
	switch {
	case s.Default == "":
		return "empty"
	case s.derive != nil:
		return s.Default
	}
	return "`" + s.Default + "`"
}
