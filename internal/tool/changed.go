//go:build !seeded_lostedit

package tool

import "github.com/berthdev/berth/internal/files"

// changed reports whether a file is no longer the one that was read.
func changed(was, now files.Info) bool { return was.Tag != now.Tag }
