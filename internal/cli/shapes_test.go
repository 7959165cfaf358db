package cli

import (
	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/tarball"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/template/base"
	"github.com/berthdev/berth/internal/workspace"
)

// Numbers that people meet in output.
const (
	tableBatch = 200 // rows aligned together
	maxLeft    = 10  // files named that cp left out
	maxNamed   = 20  // files named that a save left out
	lockName   = workspace.StateFile + ".lock"
)

// The documents that --json prints, as scripts decode them.
type (
	copied struct {
		From, To string
		tarball.Tally
	}
	shownFile struct {
		Path      string
		Size      int64
		Text      string
		Base64    []byte
		Truncated bool
	}
	shownConfig struct {
		File     string
		Settings []config.Row
		Warnings []string
	}
	findings struct {
		Status string
		Checks []api.Check
	}
	checkedTemplates struct {
		Status, File string
		Templates    []string
		Findings     []struct{ Status, Key, Origin, Value, Why, Fix string }
	}
	builtBase struct {
		base.Base
		Made   bool
		Former string
	}
	syncedJSON struct {
		Version string
		New     bool
		workspace.Stats
		Conflicts []workspace.Conflict
		Skipped   []skippedJSON
		Flagged   []string
	}
	skippedJSON  struct{ Path, Why string }
	exportedJSON struct {
		Version string
		Files   int
		Bytes   int64
		Skipped []skippedJSON
	}
	prunedJSON struct {
		DryRun bool `json:"dry_run"`
		workspace.Pruned
	}
	difference struct {
		From, To                          string
		Added, Modified, Deleted, Renamed int
		Bytes                             int64
		Changes                           []pathChange `json:"paths"`
	}
	pathChange struct {
		Path, Change, Kind, From string
		Size, Was                int64
		Meta                     bool `json:"metadata_only"`
	}
	shownVersion struct {
		Version workspace.Version
		difference
	}
)

func refusal(code api.Code, hint, format string, args ...any) error {
	e := fault.Errorf("", code, format, args...)
	e.Hint = hint
	return e
}
