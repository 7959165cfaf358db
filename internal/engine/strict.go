//go:build !seeded_unreadable

package engine

// strict: what cannot be read is not what is not there.
const strict = true
