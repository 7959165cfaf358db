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
// In the [Plain] layout every file of a version is an object under its path, as other tools expect it. A
// prefix that such tools have written, without a HEAD, is read as well, and [Repo.Export] writes one.
//
// A tree, a manifest and an index may all be hostile: paths are checked when they are read, nothing is
// ever followed out of the tree, and a manifest that is not whole deletes nothing. What is changed here
// while a pull is under way is kept, a restore that was killed is repeated, and what cannot be read is not
// taken for gone.
//
// Memory: a push holds at most five packs of 12 MiB on their way, 4 MiB for each of up to eight readers and
// what the store takes for four large files at once, a restore 4 MiB for each of eight streams; beside that
// about a kilobyte for each entry of the tree, which [Limits] bound.
package workspace
