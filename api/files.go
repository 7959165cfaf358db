package api

import "time"

// The kinds of files.
const (
	FileRegular   = "file"
	FileDirectory = "directory"
	FileSymlink   = "symlink"
	FilePipe      = "pipe"
	FileSocket    = "socket"
	FileDevice    = "device"
)

// The roots of a sandbox's files.
const (
	SourceWorkingDir = "working_dir" // the workspace; the default
	SourceHomeDir    = "home_dir"
)

// Headers of files and archives.
const (
	HeaderFileSize  = "Berth-File-Size" // size of the whole file, also if max_bytes cut the answer
	HeaderTruncated = "Berth-Truncated" // true if max_bytes cut the answer
	HeaderSkipped   = "Berth-Skipped"   // trailer of an archive: number of files that were left out
	HeaderNotice    = "Berth-Notice"    // changes of the sandbox's files since its last use: a restored version, lost changes
)

// File is one file in a sandbox. A symbolic link is shown as a link; it is never followed.
type File struct {
	Path       string    `json:"path" doc:"The path below the root. Invalid UTF-8 is shown as U+FFFD; such a file cannot be requested by its path"`
	Name       string    `json:"name"`
	Type       string    `json:"type" enum:"file,directory,symlink,pipe,socket,device"`
	Size       int64     `json:"size"`
	Mode       string    `json:"mode" doc:"Permissions in octal" example:"0644"`
	ModifiedAt time.Time `json:"modified_at"`
	Target     string    `json:"target,omitempty" doc:"The target of a symbolic link"`
	ETag       string    `json:"etag" doc:"Changes whenever the file may have changed"`
}

// FileTree is a file or a folder with its children.
type FileTree struct {
	File
	Children  []FileTree `json:"children,omitempty" doc:"The entries of a folder"`
	Truncated bool       `json:"truncated,omitempty" doc:"Some children are left out; at the root: some files in the tree are left out"`
}

// FileOperation is the request for an operation on one path.
type FileOperation struct {
	Op      string `json:"op" enum:"mkdir,move" doc:"mkdir creates a folder and its parents; move moves a file or folder and creates missing parents"`
	To      string `json:"to,omitempty" maxLength:"4095" doc:"The new path, in the same root"`
	Replace bool   `json:"replace,omitempty" doc:"Replace an existing file"`
}

// Unpacked counts the entries of an archive that was unpacked.
type Unpacked struct {
	Files   int   `json:"files"`
	Folders int   `json:"folders"`
	Links   int   `json:"links"`
	Bytes   int64 `json:"bytes"`
}
