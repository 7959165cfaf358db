package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/sandbox"
)

// settingFlag is one row of the configuration's table as a flag. It only keeps the text: what the
// text means is the table's business.
type settingFlag struct {
	text string
	kind config.Kind
}

func (s *settingFlag) String() string     { return s.text }
func (s *settingFlag) Set(v string) error { s.text = v; return nil }
func (s *settingFlag) Type() string       { return strings.ToUpper(string(s.kind)) }

// configured adds --config and every setting's flag to a command and returns how to load what they
// ask for.
func (f *frame) configured(cmd *cobra.Command) (load func() (*config.Loaded, error)) {
	flags := cmd.Flags()
	file := flags.String("config", "", "TOML `FILE` to read (env BERTH_CONFIG)")
	names := map[string]*pflag.Flag{}
	for _, s := range config.Settings() {
		if s.Flag != "" {
			names[s.Flag] = flags.VarPF(&settingFlag{kind: s.Kind}, s.Flag, "", settingHelp(s))
		}
	}
	return func() (*config.Loaded, error) {
		given := map[string]string{}
		for name, flag := range names {
			if flag.Changed {
				given[name] = flag.Value.String()
			}
		}
		cfg, err := config.Load(config.Sources{File: *file, Env: f.Env, Flags: given})
		return cfg, unusable(err)
	}
}

// unusable says what to do about a file that could not be read at all; what is wrong with single
// values, the configuration says itself.
func unusable(err error) error {
	var values *config.Error
	if err == nil || errors.As(err, &values) {
		return err
	}
	e := sandbox.Errorf("", api.CodeInvalidConfig, "%w", err)
	e.Hint = "Correct the file, or name another with --config (BERTH_CONFIG)."
	return e
}

// settingHelp puts the default and the strongest environment name behind the setting's own words.
func settingHelp(s config.Setting) string {
	more := "env " + strings.Join(s.Env, " or ")
	if s.Default != "" {
		more += "; default " + s.Default
	}
	return s.Help + " (" + more + ")"
}
