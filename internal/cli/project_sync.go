package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
)

func (f *frame) projectSync() *cobra.Command {
	var apply bool
	cmd := &cobra.Command{
		Use:   "sync ID",
		Short: "Compare a project's record with what is really there",
		Long: `Compare the record of a project's sandbox with what its driver says is really there, and say what would
be done about a difference. With --apply it is done. The server finds and mends such things by itself,
a little later.

It ends with 0 if both agree, with 1 if not, and with 125 if it could not be done.`,
		Example: "  berth project sync shop\n  berth project sync shop --apply\n  berth project sync shop --json",
		Args:    takes(1, 1, oneProject),
		RunE: f.onProject(func(ctx context.Context, c *connection, id string) error {
			do := c.Projects.Sync
			if apply {
				do = c.Projects.Reconcile
			}
			s, err := do(ctx, id)
			if err != nil {
				return err
			}
			return f.showSync(s)
		}),
		ValidArgsFunction: f.completeProjects(1),
	}
	cmd.Flags().BoolVar(&apply, "apply", false, "make the record and what is there agree")
	return f.online(cmd)
}

func (f *frame) showSync(s api.ProjectSync) (err error) {
	if f.json {
		err = writeJSON(f.out, s)
	} else {
		verdict := f.out.paint(green, "agrees with what is there")
		if !s.Agrees {
			verdict = f.out.paint(red, "does not agree with what is there")
		}
		fmt.Fprintf(f.out, "the record of %s %s\n", f.out.paint(bold, clean(s.ProjectID)), verdict)
		lines := []detail{{"recorded", s.Recorded}, {"actual", s.Actual}, {"detail", s.Detail}, {"sandbox", s.SandboxID}}
		for _, step := range s.Would {
			lines = append(lines, detail{"would", step})
		}
		err = f.details(lines)
	}
	if err == nil && !s.Agrees {
		return exitUnfit
	}
	return err
}
