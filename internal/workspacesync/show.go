package workspacesync

import (
	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workspace"
)

// maxNamed limits the number of files of each kind that the result of one sync lists.
const maxNamed = 1000

// Show converts the result of a sync to the type of the API.
func Show(sb sandbox.Sandbox, res *workspace.Result) api.Synced {
	st := res.Stats
	out := api.Synced{
		SandboxID: sandbox.PublicID(sb.ID), Version: sb.Synced.Version, New: res.New,
		Stats: api.SyncStats{
			FilesDownloaded: st.FilesDownloaded, FilesUploaded: st.FilesUploaded, FilesDeleted: st.FilesDeleted,
			FilesSkipped: st.FilesSkipped, BytesTransferred: st.BytesTransferred, Duration: st.Duration,
		},
		Conflicts: []api.Conflict{}, Skipped: []api.SkippedFile{},
	}
	for _, c := range res.Conflicts[:min(len(res.Conflicts), maxNamed)] {
		out.Conflicts = append(out.Conflicts, api.Conflict(c))
	}
	for _, skipped := range res.Skipped[:min(len(res.Skipped), maxNamed)] {
		out.Skipped = append(out.Skipped, api.SkippedFile{Path: skipped.Path, Why: skipped.Why})
	}
	out.Flagged = append([]string{}, res.Flagged[:min(len(res.Flagged), maxNamed)]...)
	out.More = len(res.Conflicts) + len(res.Skipped) + len(res.Flagged) - len(out.Conflicts) - len(out.Skipped) - len(out.Flagged)
	return out
}
