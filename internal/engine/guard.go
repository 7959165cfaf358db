//go:build !seeded_guard

package engine

// guarded makes a holder look whether it still is one before it ends an instance.
const guarded = true
