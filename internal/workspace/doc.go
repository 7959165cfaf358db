// Package workspace saves a directory tree as versions in an object store and brings them back.
//
// A version is one [Manifest], stored as {prefix}{version}/.sandbox-state: it names every file with its
// checksums, size, times, mode and where its bytes are. Small files are packed together, large ones have
// an object of their own; bytes that a version before had are referenced, not sent again. The one object
// that changes is {prefix}HEAD, and writing it conditionally is what commits a version: what HEAD does
// not lead to does not exist.
//
// [Repo] is one prefix of a store with [Repo.Push], [Repo.Pull], [Repo.Restore], [Repo.Versions],
// [Repo.Prune] and [Repo.Verify]. Between two of them an [Index] remembers what the tree was when it was
// last the same as a version, with the times and inodes of every file, so that an unchanged file is not
// even opened. [Compare] decides, purely, what to do about every path of three trees: as they were
// last, here, and in the store.
//
// A tree, a manifest and an index may all be hostile: paths are checked when they are read, nothing is
// ever followed out of the tree, and a manifest that is not whole deletes nothing.
package workspace
