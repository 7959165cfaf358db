//go:build seeded_lostedit

package tool

import "github.com/berthdev/berth/internal/files"

// changed lets an edit write over what another one wrote meanwhile: a bug on purpose, which tests must find.
func changed(files.Info, files.Info) bool { return false }
