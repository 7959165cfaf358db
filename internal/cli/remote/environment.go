package remote

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
)

// EnvFlags holds the flags for an environment.
type EnvFlags struct {
	Given []string // KEY=VALUE, or KEY
	File  string
}

// Any reports whether any flag was given.
func (e EnvFlags) Any() bool { return len(e.Given) > 0 || e.File != "" }

// EnvFlags adds --env and --env-file.
func (r *Remote) EnvFlags(cmd *cobra.Command, env *EnvFlags) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&env.Given, "env", "e", nil, "`KEY=VALUE` for its processes; KEY alone takes the value from here, unseen by others; repeatable")
	flags.StringVar(&env.File, "env-file", "", "`FILE` of KEY=VALUE lines")
	_ = cmd.RegisterFlagCompletionFunc("env", cobra.NoFileCompletions)
}

// UserFlag adds --user.
func (r *Remote) UserFlag(cmd *cobra.Command, user *string) {
	cmd.Flags().StringVarP(user, "user", "u", "", "`USER` to be: agent, or root inside the sandbox (default: the template's)")
	ui.Offer(cmd, "user", []string{"agent", "root"})
}

// ReadEnv returns the variables of --env-file and --env. --env takes precedence.
func (r *Remote) ReadEnv(given []string, file string) (map[string]string, error) {
	env := map[string]string{}
	if err := readEnv(env, file); err != nil {
		return nil, err
	}
	for _, pair := range given {
		name, value, ok := strings.Cut(pair, "=")
		if why := envProblem(name, value); why != "" {
			return nil, ui.Usage(fmt.Sprintf("--env %q: %s", name, why), "Write --env KEY=VALUE, or --env KEY to take the value from here.")
		}
		if !ok {
			if value, ok = r.Env(name); !ok {
				return nil, ui.Usage(fmt.Sprintf("--env %s: %s is not set here", name, name), "Set it, or write --env "+name+"=VALUE.")
			}
		}
		env[name] = value
	}
	return env, nil
}

const maxEnvBytes = 1 << 20

// readEnv adds the variables in a file to env. It ignores empty lines and comments. An error contains only the line
// number, because the line may hold a secret.
func readEnv(env map[string]string, path string) error {
	if path == "" {
		return nil
	}
	text, err := readAtMost(path, maxEnvBytes)
	if err != nil {
		return fmt.Errorf("read --env-file: %w", err)
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if why := envProblem(name, value); !ok || why != "" {
			return ui.Usage(fmt.Sprintf("--env-file: line %d of %s: %s", n, path, ui.First(why, "it has no =")), "Write one KEY=VALUE a line.")
		}
		env[name] = value
	}
	return nil
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// envProblem returns the reason why a variable is invalid, or the empty string if it is valid.
func envProblem(name, value string) string {
	switch {
	case !variableName.MatchString(name):
		return "the name has to be of letters, digits and _, and not begin with a digit"
	case strings.Contains(value, "\x00"):
		return "the value holds a NUL"
	}
	return ""
}

func readAtMost(path string, most int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", path, most)
	}
	return string(data), err
}

// pairs parses KEY=VALUE texts. An error does not contain the text, because the value may be a secret.
func pairs(flag string, given []string) (map[string]string, error) {
	if len(given) == 0 {
		return nil, nil
	}
	m := make(map[string]string, len(given))
	for _, pair := range given {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, ui.Usage(flag+" needs KEY=VALUE", "Write "+flag+" KEY=VALUE.")
		}
		m[key] = value
	}
	return m, nil
}
