package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
)

func (f *frame) get() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "get ID|NAME",
		Short:             "Show one sandbox",
		Long:              "Show everything about one sandbox, found by its id or its name.",
		Example:           "  berth get scratch\n  berth get scratch --json",
		Args:              takes(1, 1, "the ID or NAME of one sandbox"),
		RunE:              run(func(ctx context.Context, args []string) error { return f.runGet(ctx, args[0]) }),
		ValidArgsFunction: f.completeSandboxes(1),
	}
	return f.online(cmd)
}

func (f *frame) runGet(ctx context.Context, ref string) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	s, err := c.Sandboxes.Get(ctx, ref)
	switch {
	case err != nil:
		return c.known(ctx, ref, err)
	case f.json:
		return writeJSON(f.out, s)
	}
	return f.details(f.describe(s))
}

// describe is a sandbox as the lines a person reads, missing values left out.
func (f *frame) describe(s api.Sandbox) []detail {
	lines := []detail{
		{"id", s.ID}, {"name", s.Name}, {"owner", s.Owner.Kind + " " + s.Owner.ID},
		{"state", s.State}, {"want", s.Want},
		{"template", s.Template}, {"driver", s.Driver}, {"profile", s.Profile},
		{"instance", s.Instance}, {"incarnation", fmt.Sprint(s.Incarnation)},
		{"created", f.when(s.CreatedAt)}, {"started", f.whenever(s.StartedAt)}, {"active", f.when(s.ActiveAt)},
		{"env", strings.Join(s.Env, ", ")}, {"metadata", joined(s.Metadata)},
	}
	if s.Frozen {
		lines[3].value += ", frozen"
	}
	if t := s.Traffic; t != nil {
		lines = append(lines, detail{"traffic", fmt.Sprintf("%d bytes in, %d bytes out", t.BytesIn, t.BytesOut)})
	}
	lines = append(lines, f.saved(s.Saved)...)
	if s.DeletedAt != nil {
		lines = append(lines, detail{"deleted", f.when(*s.DeletedAt)})
	}
	if e := s.Error; e != nil {
		lines = append(lines, detail{"error", fmt.Sprintf("%s (%s, %s, failures in a row: %d)", e.Message, e.Code, f.when(e.At), e.Attempts)})
	}
	return lines
}

func joined(m map[string]string) string {
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		texts = append(texts, key+"="+m[key])
	}
	return strings.Join(texts, ", ")
}

// detail is one named value.
type detail struct{ name, value string }

// details prints named values under each other; empty ones are left out.
func (f *frame) details(lines []detail) error {
	for _, l := range lines {
		if l.value == "" {
			continue
		}
		colour := colour("")
		if l.name == "state" || l.name == "status" {
			colour = stateColour(l.value)
		}
		if _, err := fmt.Fprintf(f.out, "  %-12s %s\n", l.name, f.out.paint(colour, clean(l.value))); err != nil {
			return err
		}
	}
	return nil
}

// saved says how the workspace stands to its versions.
func (f *frame) saved(s api.Saved) (lines []detail) {
	if s.UnsavedSince != nil {
		lines = append(lines, detail{"unsaved", "changes since " + f.when(*s.UnsavedSince)})
	}
	if e := s.SaveError; e != nil {
		lines = append(lines, detail{"save error", fmt.Sprintf("%s (%s, %s)", e.Message, e.Code, f.when(e.At))})
	}
	if r := s.Restored; r != nil {
		lines = append(lines, detail{"restored", fmt.Sprintf("version %s of %s, %s", r.Version, f.when(r.SavedAt), f.when(r.At))})
	}
	if l := s.Lost; l != nil {
		lines = append(lines, detail{"lost", fmt.Sprintf("changes since %s were not saved when the instance was lost, %s", f.when(l.Since), f.when(l.At))})
	}
	return lines
}
