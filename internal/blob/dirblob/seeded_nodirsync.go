//go:build seeded_nodirsync

package dirblob

// Writes are reported before their names are on the disk: a bug on purpose, which tests must find.
const syncFiles, syncFolders = true, false
