//go:build !seeded_hardlinks

package workspace

// ownLinks: a hard link to somebody else's file is not saved.
const ownLinks = true
