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
	HeaderFileSize  = "Berth-File-Size" // the whole file's size, where max_bytes may have cut the answer
	HeaderTruncated = "Berth-Truncated" // true where it did
	HeaderSkipped   = "Berth-Skipped"   // trailer of an archive: how many files were left out
)

// File is one file in a sandbox. A link is shown as a link, never as what it leads to.
type File struct {
	Path       string    `json:"path" doc:"Relative to its root. A byte that is not UTF-8 is shown as U+FFFD; such a file cannot be asked for by its path"`
	Name       string    `json:"name"`
	Type       string    `json:"type" enum:"file,directory,symlink,pipe,socket,device"`
	Size       int64     `json:"size"`
	Mode       string    `json:"mode" doc:"Permissions in octal" example:"0644"`
	ModifiedAt time.Time `json:"modified_at"`
	Target     string    `json:"target,omitempty" doc:"Where a link leads, as it is written"`
	ETag       string    `json:"etag" doc:"Another one whenever the file may have changed"`
}

// FileTree is a file with what is below it.
type FileTree struct {
	File
	Children  []FileTree `json:"children,omitempty" doc:"Of a folder that was looked into"`
	Truncated bool       `json:"truncated,omitempty" doc:"It has more children than these; at the root: something was cut off somewhere"`
}

// FileOperation is something to do with one path.
type FileOperation struct {
	Op      string `json:"op" enum:"mkdir,move" doc:"mkdir makes a folder and those above it; move moves what is there, making missing folders"`
	To      string `json:"to,omitempty" maxLength:"4095" doc:"Where to move it, in the same root"`
	Replace bool   `json:"replace,omitempty" doc:"Replace a file that is there"`
}

// Unpacked is what came out of an archive.
type Unpacked struct {
	Files   int   `json:"files"`
	Folders int   `json:"folders"`
	Links   int   `json:"links"`
	Bytes   int64 `json:"bytes"`
}
