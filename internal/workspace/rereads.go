//go:build !seeded_stale

package workspace

// rereads: a file that changed while it was read is read again.
const rereads = true
