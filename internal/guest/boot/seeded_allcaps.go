//go:build seeded_allcaps

package boot

// bounded leaves an instance's root every capability: a bug on purpose,
// which tests must find.
const bounded = false
