//go:build seeded_guard

package engine

// guarded lets a holder end what it takes for its own without looking: a bug on purpose, which tests
// must find.
const guarded = false
