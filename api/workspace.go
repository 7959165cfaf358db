package api

import "time"

// Version is one saved state of a sandbox's workspace.
type Version struct {
	ID        string    `json:"id" doc:"Sorts by time" example:"20261115T031402.123456789Z-1a2b3c"`
	Sequence  int64     `json:"sequence" doc:"Counts the versions of a workspace"`
	Parent    string    `json:"parent,omitempty" doc:"The version before it, which may have been pruned since"`
	CreatedAt time.Time `json:"created_at"`
	Files     int       `json:"files"`
	Bytes     int64     `json:"bytes" doc:"In all its files, whether they had to be stored anew or not"`
	Note      string    `json:"note,omitempty" doc:"Why it was made, if not by itself"`
}

// VersionDetail is a version and what it changed.
type VersionDetail struct {
	Version
	Changes VersionDiff `json:"changes" doc:"Against the version before it that there is"`
}

// VersionDiff is what differs between two versions.
type VersionDiff struct {
	From      string       `json:"from,omitempty" doc:"Absent: nothing, as before the first version"`
	To        string       `json:"to"`
	Added     int          `json:"added"`
	Modified  int          `json:"modified"`
	Deleted   int          `json:"deleted"`
	Renamed   int          `json:"renamed"`
	Bytes     int64        `json:"bytes" doc:"In the files that are new or have new bytes"`
	Paths     []PathChange `json:"paths"`
	Truncated bool         `json:"truncated,omitempty" doc:"There are more paths than are listed; the numbers are of all"`
}

// PathChange is one path that two versions do not have alike.
type PathChange struct {
	Path   string `json:"path"`
	Change string `json:"change" enum:"added,modified,deleted,renamed"`
	Kind   string `json:"kind" enum:"file,folder,link"`
	From   string `json:"from,omitempty" doc:"Where a file was that was renamed"`
	Size   int64  `json:"size" doc:"Of a file; of one that was deleted, as it was"`
	Was    int64  `json:"was,omitempty" doc:"The size before, of a file that was modified"`
	Meta   bool   `json:"metadata_only,omitempty" doc:"Only times or permissions differ"`
}

// SyncStats is what one sync did.
type SyncStats struct {
	FilesDownloaded  int     `json:"files_downloaded"`
	FilesUploaded    int     `json:"files_uploaded"`
	FilesDeleted     int     `json:"files_deleted" doc:"In the workspace, and from the new version because the workspace has them no more; each file once"`
	FilesSkipped     int     `json:"files_skipped" doc:"Unchanged, and not read"`
	BytesTransferred int64   `json:"bytes_transferred"`
	Duration         float64 `json:"duration" doc:"Seconds"`
}

// Conflict is a file that was changed on both sides and is kept twice.
type Conflict struct {
	Path string `json:"path"`
	Copy string `json:"copy" doc:"Where the other one is"`
}

// Synced is what a sync or a restore came to.
type Synced struct {
	SandboxID string        `json:"sandbox_id"`
	Version   string        `json:"version,omitempty" doc:"The version that the workspace is now the same as; absent: there never was anything to save"`
	New       bool          `json:"new" doc:"The version was made just now"`
	Stats     SyncStats     `json:"stats"`
	Conflicts []Conflict    `json:"conflicts" doc:"Files that were changed here and by another writer, each kept twice"`
	Skipped   []SkippedFile `json:"skipped" doc:"What cannot be saved: pipes, sockets, devices, what cannot be read"`
	Flagged   []string      `json:"flagged" doc:"What was brought here and common tools run by themselves: hooks of git, settings of editors and agents. Berth never runs it"`
	More      int           `json:"more,omitempty" doc:"How many conflicts, skipped and flagged files are not listed"`
}

// SkippedFile is something in a workspace that cannot be saved.
type SkippedFile struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// SyncWorkspace asks for a workspace to be saved now.
type SyncWorkspace struct {
	Note string `json:"note,omitempty" maxLength:"500" doc:"Kept with the version, if there is a new one"`
	// AllowMassDelete answers the problem sync_mass_delete.
	AllowMassDelete bool `json:"allow_mass_delete,omitempty" doc:"Bring in what other sandboxes saved to the same workspace even if that deletes more than half of its files; without it that is sync_mass_delete"`
}

// RestoreVersion asks for a version to be brought back.
type RestoreVersion struct {
	Version string `json:"version,omitempty" maxLength:"100" doc:"The newest if left out"`
	Into    string `json:"into,omitempty" maxLength:"63" doc:"Name of a new sandbox to bring it into; left out: the sandbox itself"`
	Force   bool   `json:"force,omitempty" doc:"Also while somebody works in the sandbox"`
}

// Restored is what a restore came to.
type Restored struct {
	Synced
	Sandbox Sandbox `json:"sandbox" doc:"The sandbox that has the version now"`
	From    string  `json:"from" doc:"The version that was brought back"`
}

// PruneVersions says which versions to keep. The newest always is.
type PruneVersions struct {
	KeepLast  int  `json:"keep_last,omitempty" minimum:"0" maximum:"1000000" doc:"So many of the newest"`
	KeepDaily int  `json:"keep_daily,omitempty" minimum:"0" maximum:"36500" doc:"The newest of each of so many days"`
	DryRun    bool `json:"dry_run,omitempty" doc:"Say which, and do nothing"`
}

// Pruned is what a prune did, or would do.
type Pruned struct {
	DryRun  bool      `json:"dry_run"`
	Kept    int       `json:"kept"`
	Removed []Version `json:"removed" doc:"Newest first"`
	Objects int       `json:"objects" doc:"That were deleted from the store"`
	Bytes   int64     `json:"bytes" doc:"In them"`
	Waiting int       `json:"waiting" doc:"Objects that no version needs any more and that a prune a day from now deletes"`
}

// Verified is what reading every version came to.
type Verified struct {
	Versions int              `json:"versions"`
	Files    int              `json:"files" doc:"Different ones"`
	Bytes    int64            `json:"bytes"`
	Problems []VersionProblem `json:"problems" doc:"Empty: every version can be restored"`
	More     int              `json:"more,omitempty" doc:"How many problems are not listed"`
}

// VersionProblem is a version that cannot be restored, or a file of it.
type VersionProblem struct {
	Version string `json:"version"`
	Path    string `json:"path,omitempty" doc:"Absent: all of it"`
	Why     string `json:"why"`
}
