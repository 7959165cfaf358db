package api

import "time"

// Version is one saved state of a sandbox's workspace.
type Version struct {
	ID        string    `json:"id" doc:"The version's id; ids sort by time" example:"20261115T031402.123456789Z-1a2b3c"`
	Sequence  int64     `json:"sequence" doc:"The version's number in the workspace"`
	Parent    string    `json:"parent,omitempty" doc:"The previous version, which may have been pruned"`
	CreatedAt time.Time `json:"created_at"`
	Files     int       `json:"files"`
	Bytes     int64     `json:"bytes" doc:"Total size of its files"`
	Note      string    `json:"note,omitempty" doc:"Why it was saved, if a request asked for it"`
}

// VersionDetail is a version with its changes.
type VersionDetail struct {
	Version
	Changes VersionDiff `json:"changes" doc:"Changes since the previous stored version"`
}

// VersionDiff lists the differences between two versions.
type VersionDiff struct {
	From      string       `json:"from,omitempty" doc:"The older version; absent: an empty workspace"`
	To        string       `json:"to"`
	Added     int          `json:"added"`
	Modified  int          `json:"modified"`
	Deleted   int          `json:"deleted"`
	Renamed   int          `json:"renamed"`
	Bytes     int64        `json:"bytes" doc:"Total size of new and modified files"`
	Paths     []PathChange `json:"paths"`
	Truncated bool         `json:"truncated,omitempty" doc:"Some paths are left out; the numbers count all"`
}

// PathChange is one difference between two versions.
type PathChange struct {
	Path   string `json:"path"`
	Change string `json:"change" enum:"added,modified,deleted,renamed"`
	Kind   string `json:"kind" enum:"file,folder,link"`
	From   string `json:"from,omitempty" doc:"The old path of a renamed file"`
	Size   int64  `json:"size" doc:"The file's size; for a deleted file its last size"`
	Was    int64  `json:"was,omitempty" doc:"The previous size of a modified file"`
	Meta   bool   `json:"metadata_only,omitempty" doc:"Only times or permissions differ"`
}

// SyncStats counts the work of one sync.
type SyncStats struct {
	FilesDownloaded  int     `json:"files_downloaded"`
	FilesUploaded    int     `json:"files_uploaded"`
	FilesDeleted     int     `json:"files_deleted" doc:"Files deleted in the workspace and in the new version; each file is counted once"`
	FilesSkipped     int     `json:"files_skipped" doc:"Unchanged files that were not read"`
	BytesTransferred int64   `json:"bytes_transferred"`
	Duration         float64 `json:"duration" doc:"Duration in seconds"`
}

// Conflict is a file that was changed on both sides and is kept twice.
type Conflict struct {
	Path string `json:"path"`
	Copy string `json:"copy" doc:"The path of the other copy"`
}

// Synced is the result of a sync or a restore.
type Synced struct {
	SandboxID string        `json:"sandbox_id"`
	Version   string        `json:"version,omitempty" doc:"The version that equals the workspace now; absent if there was never anything to save"`
	New       bool          `json:"new" doc:"The version is new"`
	Stats     SyncStats     `json:"stats"`
	Conflicts []Conflict    `json:"conflicts" doc:"Files that were changed here and by another writer; both copies are kept"`
	Skipped   []SkippedFile `json:"skipped" doc:"Files that cannot be saved: pipes, sockets, devices, unreadable files"`
	Flagged   []string      `json:"flagged" doc:"Merged files that common tools run automatically: git hooks, settings of editors and agents. Berth never runs them"`
	More      int           `json:"more,omitempty" doc:"Number of conflicts, skipped and flagged files that are left out"`
}

// SkippedFile is something in a workspace that cannot be saved.
type SkippedFile struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// SyncWorkspace is the request to save a workspace now.
type SyncWorkspace struct {
	Note string `json:"note,omitempty" maxLength:"500" doc:"A note for the new version"`
	// AllowMassDelete accepts the deletions that the server otherwise refuses with the code sync_mass_delete.
	AllowMassDelete bool `json:"allow_mass_delete,omitempty" doc:"Merge versions of other sandboxes even if that deletes more than half of the workspace's files; otherwise the answer is sync_mass_delete"`
}

// RestoreVersion is the request to restore a version.
type RestoreVersion struct {
	Version string `json:"version,omitempty" maxLength:"100" doc:"The version's id; default: the newest"`
	Into    string `json:"into,omitempty" maxLength:"63" doc:"The name of a new sandbox to restore into; default: the sandbox itself"`
	Force   bool   `json:"force,omitempty" doc:"Restore even if the sandbox is in use"`
}

// Restored is the result of a restore.
type Restored struct {
	Synced
	Sandbox Sandbox `json:"sandbox" doc:"The sandbox that was restored"`
	From    string  `json:"from" doc:"The version that was restored"`
}

// PruneVersions is the request to remove old versions. The newest version is always kept.
type PruneVersions struct {
	KeepLast  int  `json:"keep_last,omitempty" minimum:"0" maximum:"1000000" doc:"How many of the newest versions to keep" example:"10"`
	KeepDaily int  `json:"keep_daily,omitempty" minimum:"0" maximum:"36500" doc:"For how many days to keep the newest version of each day"`
	DryRun    bool `json:"dry_run,omitempty" doc:"Only report; change nothing"`
}

// Pruned is the result of a prune or of its dry run.
type Pruned struct {
	DryRun  bool      `json:"dry_run"`
	Kept    int       `json:"kept"`
	Removed []Version `json:"removed" doc:"The removed versions, newest first"`
	Objects int       `json:"objects" doc:"Number of objects that were deleted from the store"`
	Bytes   int64     `json:"bytes" doc:"Their total size"`
	Waiting int       `json:"waiting" doc:"Unneeded objects that a prune at least a day later deletes"`
}

// Verified is the result of reading and checking all versions.
type Verified struct {
	Versions int              `json:"versions"`
	Files    int              `json:"files" doc:"Number of distinct files"`
	Bytes    int64            `json:"bytes"`
	Problems []VersionProblem `json:"problems" doc:"The problems; empty if every version can be restored"`
	More     int              `json:"more,omitempty" doc:"Number of problems that are left out"`
}

// VersionProblem is a version that cannot be restored, or a file of it.
type VersionProblem struct {
	Version string `json:"version"`
	Path    string `json:"path,omitempty" doc:"The file; absent: the whole version"`
	Why     string `json:"why"`
}
