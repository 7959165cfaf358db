package hook

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/berthdev/berth/internal/guest"
)

// cloneScript clones a repository into an empty workspace. A clone that was interrupted is finished by the next
// run.
//
//go:embed clone.sh
var cloneScript string

// credentialHelper is a credential helper for git. It contains the name of the variable with the token, not the
// token.
const credentialHelper = `!f() { test "$1" = get && test -n "$GITHUB_TOKEN" && echo username=x-access-token && echo "password=$GITHUB_TOKEN"; }; f`

// GitEnv returns the environment for git commands that use the token in GITHUB_TOKEN as the password at one server.
// The token is not written to a file or a command line, and not sent to other servers.
func GitEnv(server string) map[string]string {
	return map[string]string{
		"GIT_CONFIG_COUNT": "1",
		"GIT_CONFIG_KEY_0": "credential." + server + ".helper", "GIT_CONFIG_VALUE_0": credentialHelper,
		"GIT_TERMINAL_PROMPT": "0",
	}
}

var (
	shortName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9._-]+$`)
	refName   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/@^~{}+#=-]{0,254}$`)
)

// CloneRepository is the hook Clone. If the workspace is empty, it clones the repository GITHUB_REPOSITORY into it
// and checks out GITHUB_REF. Both are environment variables of the sandbox or the template, or entries of the
// sandbox's metadata.
func CloneRepository(ctx context.Context, d *Data) error {
	lookup, err := variableLookup(ctx, d)
	if err != nil {
		return err
	}
	repository, server, err := remote(lookup("GITHUB_REPOSITORY"))
	if err != nil {
		return err
	}
	ref := strings.TrimPrefix(strings.TrimPrefix(lookup("GITHUB_REF"), "refs/heads/"), "refs/tags/")
	if ref != "" && !refName.MatchString(ref) {
		return fmt.Errorf("GITHUB_REF is %q, which is neither a branch, nor a tag, nor a commit", cut(ref, 100))
	}
	env := GitEnv(server)
	env["BERTH_REPOSITORY"], env["BERTH_REF"] = repository, ref
	spec := Spec{Phase: d.Phase, Builtin: Clone, Command: []string{"/bin/sh", "-c", cloneScript}}
	return execute(ctx, spec, 0, d, env)
}

// variableLookup returns a function that looks up a variable in the environment of commands, then in the sandbox's
// metadata.
func variableLookup(ctx context.Context, d *Data) (func(name string) string, error) {
	cmd, err := d.Command(ctx, guest.Cmd{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreached, err)
	}
	env := map[string]string{}
	for _, v := range cmd.Env {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	return func(name string) string {
		if value := env[name]; value != "" {
			return value
		}
		return d.Record.Spec.Metadata[name]
	}, nil
}

// remote returns the URL of a repository and the URL of its server.
func remote(name string) (repository, server string, err error) {
	switch {
	case name == "":
		return "", "", errors.New("no repository is named; give the sandbox the variable or the metadata GITHUB_REPOSITORY: owner/name, or the https address of any repository")
	case shortName.MatchString(name):
		return "https://github.com/" + strings.TrimSuffix(name, ".git") + ".git", "https://github.com", nil
	}
	u, err := url.Parse(name)
	switch {
	case err != nil || u.Host == "" || !slices.Contains([]string{"https", "http", "git"}, u.Scheme):
		return "", "", errors.New("GITHUB_REPOSITORY is neither owner/name nor an address that begins with https://, http:// or git://")
	case u.User != nil:
		return "", "", errors.New("GITHUB_REPOSITORY has a user or a password in it, which would be written into the clone; give the token as GITHUB_TOKEN")
	}
	return name, u.Scheme + "://" + u.Host, nil
}

// pairs formats variables as sorted NAME=value strings.
func pairs(env map[string]string) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}
