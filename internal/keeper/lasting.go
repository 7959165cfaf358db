//go:build !seeded_forgetpurge

package keeper

// lasting: a purge that somebody asked for is written down before it is tried.
const lasting = true
