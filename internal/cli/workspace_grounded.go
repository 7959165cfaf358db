//go:build !seeded_anybase

package cli

// grounded: a directory is taken for what its own state file says, and for nothing else.
const grounded = true
