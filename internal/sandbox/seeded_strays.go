//go:build seeded_strays

package sandbox

// endStrays leaves what an unfinished create made: a bug on purpose, which tests must find.
const endStrays = false
