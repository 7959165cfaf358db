//go:build !seeded_nosync && !seeded_nodirsync

package dirblob

// What is synced before a write is reported: the bytes of files, and the names in folders.
const syncFiles, syncFolders = true, true
