//go:build !seeded_nodirlock

package cli

// exclusive: one sync of a directory at a time.
const exclusive = true
