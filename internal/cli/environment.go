package cli

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// environ is where the flags say an environment comes from.
type environ struct {
	given []string // KEY=VALUE, or KEY
	file  string
}

// any reports whether there are any variables.
func (e environ) any() bool { return len(e.given) > 0 || e.file != "" }

// environFlags adds --env and --env-file.
func (f *frame) environFlags(cmd *cobra.Command, env *environ) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&env.given, "env", "e", nil, "`KEY=VALUE` for its processes; KEY alone takes the value from here, unseen by others; repeatable")
	flags.StringVar(&env.file, "env-file", "", "`FILE` of KEY=VALUE lines")
	_ = cmd.RegisterFlagCompletionFunc("env", cobra.NoFileCompletions)
}

// userFlag adds --user.
func (f *frame) userFlag(cmd *cobra.Command, user *string) {
	cmd.Flags().StringVarP(user, "user", "u", "", "`USER` to be: agent, or root inside the sandbox (default: the template's)")
	offer(cmd, "user", []string{"agent", "root"})
}

// environment gathers --env-file and --env, the latter stronger.
func (f *frame) environment(given []string, file string) (map[string]string, error) {
	env := map[string]string{}
	if err := readEnv(env, file); err != nil {
		return nil, err
	}
	for _, pair := range given {
		name, value, ok := strings.Cut(pair, "=")
		if why := unfit(name, value); why != "" {
			return nil, &usageError{fmt.Sprintf("--env %q: %s", name, why), "Write --env KEY=VALUE, or --env KEY to take the value from here."}
		}
		if !ok {
			if value, ok = f.Env(name); !ok {
				return nil, &usageError{fmt.Sprintf("--env %s: %s is not set here", name, name), "Set it, or write --env " + name + "=VALUE."}
			}
		}
		env[name] = value
	}
	return env, nil
}

const mostEnvBytes = 1 << 20

// readEnv reads the file's lines, without empty ones and comments. An error names the line only: what
// stands in it may be a secret.
func readEnv(env map[string]string, path string) error {
	if path == "" {
		return nil
	}
	text, err := readAtMost(path, mostEnvBytes)
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
		if why := unfit(name, value); !ok || why != "" {
			return &usageError{fmt.Sprintf("--env-file: line %d of %s: %s", n, path, first(why, "it has no =")), "Write one KEY=VALUE a line."}
		}
		env[name] = value
	}
	return nil
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// unfit says why no process can have such a variable; empty: it can.
func unfit(name, value string) string {
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

// pairs reads KEY=VALUE texts. An error names the flag at most: the value may be a secret.
func pairs(flag string, given []string) (map[string]string, error) {
	if len(given) == 0 {
		return nil, nil
	}
	m := make(map[string]string, len(given))
	for _, pair := range given {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, &usageError{flag + " needs KEY=VALUE", "Write " + flag + " KEY=VALUE."}
		}
		m[key] = value
	}
	return m, nil
}
