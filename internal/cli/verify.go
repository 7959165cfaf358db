package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func (f *frame) verify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify ID|NAME",
		Short: "Prove that every version of a workspace can be restored",
		Long: `Have the server read every version of a sandbox's workspace, and every byte that one refers to, and compare it
with its checksum. What is not as it was saved is told.

It ends with 0 when every version is whole and with 1 when one is not.`,
		Example:           "  berth verify scratch\n  berth verify scratch --json",
		Args:              takes(1, 1, "the ID or NAME of one sandbox"),
		RunE:              run(func(ctx context.Context, args []string) error { return f.runVerify(ctx, args[0]) }),
		ValidArgsFunction: f.completeSandboxes(1),
	}
	return f.online(cmd)
}

func (f *frame) runVerify(ctx context.Context, ref string) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	spin := f.spin("verifying " + clean(ref))
	found, err := c.Sandboxes.Verify(ctx, ref)
	spin.stop()
	if err != nil {
		return c.known(ctx, ref, err)
	}
	if f.json {
		err = writeJSON(f.out, found)
	} else {
		broken := map[string]bool{}
		for _, p := range found.Problems {
			broken[p.Version] = true
			f.complain("version %s, %s: %s", clean(p.Version), clean(first(p.Path, "all of it")), clean(p.Why))
		}
		text := plural(found.Versions-len(broken), "version is", "versions are") + " whole"
		if len(broken) > 0 {
			text += fmt.Sprintf(", %d not", len(broken))
		}
		_, err = fmt.Fprintf(f.out, "%s: read %s, %s\n", text, plural(found.Files, "file", "files"), size(found.Bytes))
	}
	if err == nil && len(found.Problems) > 0 {
		err = exited(1)
	}
	return err
}
