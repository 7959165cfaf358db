//go:build seeded_nosync

package dirblob

// Files are named before their bytes are on the disk: a bug on purpose, which tests must find.
const syncFiles, syncFolders = false, true
