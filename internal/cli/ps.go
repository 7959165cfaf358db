package cli

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
)

func (f *frame) ps() *cobra.Command {
	var most limit
	cmd := &cobra.Command{
		Use:   "ps ID|NAME",
		Short: "List the commands that were started in a sandbox",
		Long: `List the commands that were started in a sandbox since its last start, newest first, those that have
ended, too: what exec and shell started, with the ids under which logs and --attach find them.`,
		Example:           "  berth ps scratch\n  berth ps scratch --json",
		Args:              takes(1, 1, "the ID or NAME of one sandbox"),
		RunE:              run(func(ctx context.Context, args []string) error { return f.runPs(ctx, args[0], most) }),
		ValidArgsFunction: f.completeSandboxes(1),
	}
	limited(f.online(cmd), &most)
	f.quietly(cmd, "ids")
	return cmd
}

func (f *frame) runPs(ctx context.Context, ref string, most limit) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	return c.about(ctx, ref, show(f, execs(ctx, c, ref), listing[api.ExecStatus]{
		columns: []string{"EXEC ID", "STATE", "STARTED", "OUTPUT", "COMMAND"},
		row: func(e api.ExecStatus) []cell {
			return []cell{plain(e.ExecID), execState(e), plain(f.when(e.StartedAt)), plain(size(e.End)), plain(commandOf(e))}
		},
		id:    func(e api.ExecStatus) string { return e.ExecID },
		empty: "Nothing was started in it since its last start.",
		limit: int(most),
	}))
}

// execs lists what was started in a sandbox, newest first.
func execs(ctx context.Context, c *connection, ref string) iter.Seq2[api.ExecStatus, error] {
	return these(c.Sandboxes.Execs(ctx, ref))
}

// execState is how a command is, and how it ended.
func execState(e api.ExecStatus) cell {
	switch x := e.Exit; {
	case e.Running:
		return cell{"running", green}
	case x == nil:
		return cell{"unknown", yellow}
	case x.Lost:
		return cell{"lost", red}
	case x.Signal != "":
		return cell{"killed " + x.Signal, red}
	case x.ExitCode != 0:
		return cell{fmt.Sprintf("exit %d", x.ExitCode), red}
	}
	return cell{"exit 0", dim}
}

const mostCommand = 60

// commandOf is the beginning of a command. The one that a shell is opened with says nothing to a person.
func commandOf(e api.ExecStatus) string {
	if slices.Equal(e.Command, api.LoginShell()) {
		return "(login shell)"
	}
	return abridged(words(e.Command), mostCommand)
}

// abridged is the text's beginning.
func abridged(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

// words writes a command as a person would type it.
func words(command []string) string {
	quoted := make([]string, len(command))
	for i, word := range command {
		quoted[i] = word
		if word == "" || strings.ContainsFunc(word, needsQuotes) {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

func needsQuotes(r rune) bool {
	return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%^", r)
}
