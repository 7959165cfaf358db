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

// cloneScript brings a repository into an empty workspace, all of it or nothing.
//
//go:embed clone.sh
var cloneScript string

// helper is what git asks for a password. Only the name of the variable is ever written down.
const helper = `!f() { test "$1" = get && test -n "$GITHUB_TOKEN" && echo username=x-access-token && echo "password=$GITHUB_TOKEN"; }; f`

// GitEnv is the environment in which git has the token in GITHUB_TOKEN as its password at one server, and
// nowhere else: neither in a file, nor on a command line, nor for another server.
func GitEnv(server string) map[string]string {
	return map[string]string{
		"GIT_CONFIG_COUNT": "1",
		"GIT_CONFIG_KEY_0": "credential." + server + ".helper", "GIT_CONFIG_VALUE_0": helper,
		"GIT_TERMINAL_PROMPT": "0",
	}
}

var (
	shortName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9._-]+$`)
	refName   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/@^~{}+#=-]{0,254}$`)
)

// CloneRepository is the hook Clone: if the workspace is empty, it brings the repository there that the
// sandbox's GITHUB_REPOSITORY names, at GITHUB_REF. The two are variables of the sandbox or the template, or
// entries of the sandbox's metadata.
func CloneRepository(ctx context.Context, d *Data) error {
	said := given(d)
	repository, server, err := remote(said("GITHUB_REPOSITORY"))
	if err != nil {
		return err
	}
	ref := strings.TrimPrefix(strings.TrimPrefix(said("GITHUB_REF"), "refs/heads/"), "refs/tags/")
	if ref != "" && !refName.MatchString(ref) {
		return fmt.Errorf("GITHUB_REF is %q, which is neither a branch, nor a tag, nor a commit", cut(ref, 100))
	}
	env := GitEnv(server)
	env["BERTH_REPOSITORY"], env["BERTH_REF"] = repository, ref
	spec := Spec{Phase: d.Phase, Builtin: Clone, Command: []string{"/bin/sh", "-c", cloneScript}}
	return execute(ctx, spec, 0, d, env)
}

// given looks a variable up as a command would see it, or else in the sandbox's metadata.
func given(d *Data) func(name string) string {
	env := map[string]string{}
	for _, v := range d.Command(guest.Cmd{}).Env {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	return func(name string) string {
		if value := env[name]; value != "" {
			return value
		}
		return d.Record.Spec.Metadata[name]
	}
}

// remote is the address of a repository, and the server that it is at.
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

// pairs are variables as a command has them.
func pairs(env map[string]string) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}
