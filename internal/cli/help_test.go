package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/testkit"
)

// walk visits every command a person can see.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			walk(sub, visit)
		}
	}
}

func tree(t *testing.T) *cobra.Command {
	return newApp(newShell(t, nil).forFrame()).root()
}

// run runs one command of an app that a test has changed.
func (a *app) run(ctx context.Context, args ...string) error {
	root := a.root()
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

func (s *shell) forFrame() Deps {
	deps := s.deps
	deps.Env = func(name string) (string, bool) { v, ok := s.env[name]; return v, ok }
	return deps
}

func TestEveryCommandHasHelpExampleAndGolden(t *testing.T) {
	s := newShell(t, nil)
	walk(tree(t), func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())
		t.Run(strings.Join(path, "_"), func(t *testing.T) {
			switch {
			case cmd.Short == "" || cmd.Long == "":
				t.Error("no short or long help")
			case !strings.Contains(cmd.Example, cmd.CommandPath()):
				t.Errorf("no example that shows %q", cmd.CommandPath())
			case cmd.Args == nil:
				t.Error("arguments are not checked")
			}
			help := s.ok(append(path[1:], "--help")...)
			testkit.Golden(t, "testdata/help/"+strings.Join(path, "_")+".txt", help)
		})
	})
}

func TestEveryCommandTakesJSON(t *testing.T) {
	walk(tree(t), func(cmd *cobra.Command) {
		if cmd.Flag("json") == nil {
			t.Errorf("%s has no --json", cmd.CommandPath())
		}
	})
}

// TestNoFlagHoldsTheKey keeps secrets out of argument lists, which every user can read.
func TestNoFlagHoldsTheKey(t *testing.T) {
	for _, name := range []string{"key", "api-key", "token", "secret", "secret-key", "password"} {
		walk(tree(t), func(cmd *cobra.Command) {
			if cmd.Flag(name) != nil {
				t.Errorf("%s has --%s", cmd.CommandPath(), name)
			}
		})
	}
}

func TestSandboxGroupHasTheSameVerbs(t *testing.T) {
	root := tree(t)
	group, _, err := root.Find([]string{"sandbox"})
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range group.Commands() {
		twin, _, err := root.Find([]string{verb.Name()})
		if err != nil || twin.Short != verb.Short {
			t.Errorf("berth %s and berth sandbox %s differ", verb.Name(), verb.Name())
		}
	}
}
