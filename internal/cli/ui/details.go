package ui

import (
	"fmt"
	"strings"

	"github.com/berthdev/berth/api"
)

// StateColour returns the colour for a sandbox's state or a project's status.
func StateColour(state string) Colour {
	switch strings.ToLower(state) {
	case "running":
		return Green
	case "error", "unhealthy":
		return Red
	case "stopped", "archived", "terminated":
		return Dim
	}
	return Yellow
}

// Detail is a name and a value.
type Detail [2]string

// detailIndent is the width of the column of names, including the indentation.
const detailIndent = 15

// Details prints named values in two columns. It leaves out empty values.
func (u *UI) Details(lines []Detail) error {
	for _, l := range lines {
		if l[1] == "" {
			continue
		}
		colour := Colour("")
		if l[0] == "state" || l[0] == "status" {
			colour = StateColour(l[1])
		}
		name := l[0]
		for _, part := range Wrap(Clean(l[1]), max(u.maxWidth()-detailIndent, 0)) {
			if _, err := fmt.Fprintf(u.Out, "  %-12s %s\n", name, u.Out.Paint(colour, part)); err != nil {
				return err
			}
			name = ""
		}
	}
	return nil
}

// SavedDetails describes unsaved changes, the last restore and lost changes of a workspace.
func (u *UI) SavedDetails(s api.Saved) (lines []Detail) {
	if s.UnsavedSince != nil {
		lines = append(lines, Detail{"unsaved", "changes since " + u.Time(*s.UnsavedSince)})
	}
	if e := s.SaveError; e != nil {
		lines = append(lines, Detail{"save error", fmt.Sprintf("%s (%s, %s)", e.Message, e.Code, u.Time(e.At))})
	}
	if r := s.Restored; r != nil {
		lines = append(lines, Detail{"restored", fmt.Sprintf("version %s of %s, %s", r.Version, u.Time(r.SavedAt), u.Time(r.At))})
	}
	if l := s.Lost; l != nil {
		lines = append(lines, Detail{"lost", fmt.Sprintf("changes since %s were not saved when the instance was lost, %s", u.Time(l.Since), u.Time(l.At))})
	}
	return lines
}
