package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
)

func TestCompletionScripts(t *testing.T) {
	s := newShell(t, nil)
	for shell, want := range map[string]string{"bash": "complete -o default -F __start_berth berth", "zsh": "#compdef berth", "fish": "complete -c berth"} {
		contains(t, shell, s.ok("completion", shell), want)
	}
	for _, args := range [][]string{{"completion"}, {"completion", "tcsh"}, {"completion", "bash", "zsh"}} {
		if r := s.berth(args...); r.code != 125 || !strings.Contains(r.err, "bash, zsh or fish") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// TestFlagsThatTakeNoFileOfferNone looks at the directive for the shell; 4 is "no file names".
func TestFlagsThatTakeNoFileOfferNone(t *testing.T) {
	s := newShell(t, nil)
	for _, line := range []string{"ls --driver", "ls --state", "ls --template", "ls --limit", "history --limit", "create --driver", "create --template", "create --profile", "keys create --scope", "project ls --status", "project cleanup --max-idle", "project ensure --template", "project tool --timeout"} {
		out := s.berth(append([]string{"__complete"}, append(strings.Fields(line), "")...)...).out
		if !strings.Contains(out, "\n:4\n") && !strings.HasPrefix(out, ":4\n") {
			t.Errorf("%s: %q", line, out)
		}
	}
}

// words is what the shell would be offered.
func (s *shell) words(args ...string) []string {
	s.t.Helper()
	out := s.berth(append([]string{"__complete"}, args...)...).out
	var words []string
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, ":") {
			words = append(words, strings.TrimSuffix(line, "\n"))
		}
	}
	return words
}

func TestCompletionOffersWhatTheServerHas(t *testing.T) {
	f := newFakeServer(t)
	f.sandboxes = []api.Sandbox{{ID: "1", Name: "one", State: "running"}, {ID: "id-2", State: "stopped"}, {ID: "3", Name: "evil\x1b[2J"}, {ID: "4", Name: "four"}}
	f.keys = []api.Key{{ID: "k1", Label: "ci"}, {ID: "k2", RevokedAt: &birth}}
	s := newShell(t, f)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"get", ""}, "[one\trunning id-2\tstopped four]"},
		{[]string{"history", ""}, "[one\trunning id-2\tstopped four]"},
		{[]string{"get", "one", ""}, "[]"},
		{[]string{"rm", "one", ""}, "[id-2\tstopped four]"},
		{[]string{"sandbox", "get", "--server", f.URL, ""}, "[one\trunning id-2\tstopped four]"},
		{[]string{"keys", "revoke", ""}, "[k1\tci]"},
		{[]string{"create", "--profile", ""}, "[lite standard full]"},
		{[]string{"keys", "create", "--scope", ""}, "[read write admin]"},
		{[]string{"create", ""}, "[]"},
		{[]string{"create", "--driver", ""}, "[fake local]"},
		{[]string{"ls", "--driver", ""}, "[fake local]"},
		{[]string{"ls", "--state", ""}, "[pending creating running unhealthy stopping stopped starting archived terminating terminated error]"},
		{[]string{"completion", ""}, "[bash zsh fish]"},
	} {
		if got := fmt.Sprint(s.words(c.args...)); got != c.want {
			t.Errorf("%q offers %q, want %q", c.args, got, c.want)
		}
	}
}

func TestCompletionIsSilentWithoutAServer(t *testing.T) {
	for _, server := range []string{"http://127.0.0.1:1", "nonsense"} {
		s := newShell(t, nil).with("BERTH_SERVER", server)
		if got := s.words("get", ""); len(got) != 0 {
			t.Errorf("%s: offers %q", server, got)
		}
	}
}

func TestCompletionIsBounded(t *testing.T) {
	f := newFakeServer(t)
	for i := range 2 * remote.MaxCompletions {
		f.sandboxes = append(f.sandboxes, api.Sandbox{ID: fmt.Sprint("id-", i)})
	}
	if got := newShell(t, f).words("get", ""); len(got) != remote.MaxCompletions {
		t.Errorf("offers %d", len(got))
	}
}
