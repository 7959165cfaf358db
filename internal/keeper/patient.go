//go:build !seeded_expirenow

package keeper

// patient: versions of deleted sandboxes are kept for as long as was said.
const patient = true
