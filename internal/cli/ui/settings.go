package ui

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/fault"
)

// settingFlag is the flag of one setting. It keeps only the text, which config.Load parses.
type settingFlag struct {
	text string
	kind config.Kind
}

func (s *settingFlag) String() string     { return s.text }
func (s *settingFlag) Set(v string) error { s.text = v; return nil }
func (s *settingFlag) Type() string       { return strings.ToUpper(string(s.kind)) }

// Settings adds --config and the flags of all settings to a command. load returns the configuration with these flags.
func (u *UI) Settings(cmd *cobra.Command) (load func() (*config.Loaded, error)) {
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
		cfg, err := config.Load(config.Sources{File: *file, Env: u.Env, Flags: given})
		return cfg, unusable(err)
	}
}

// unusable adds a hint to the error that the file could not be read. Errors of single values already have hints.
func unusable(err error) error {
	var values *config.Error
	if err == nil || errors.As(err, &values) {
		return err
	}
	e := fault.Errorf("", api.CodeInvalidConfig, "%w", err)
	e.Hint = "Correct the file, or name another with --config (BERTH_CONFIG)."
	return e
}

// settingHelp returns the help of a setting's flag with its environment variables and its default.
func settingHelp(s config.Setting) string {
	more := "env " + strings.Join(s.Env, " or ")
	if s.Default != "" {
		more += "; default " + s.Default
	}
	return s.Help + " (" + more + ")"
}
