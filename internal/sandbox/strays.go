//go:build !seeded_strays

package sandbox

// endStrays makes a plan end what an unfinished create left before anything else is made.
const endStrays = true
