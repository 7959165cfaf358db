//go:build seeded_forgetful

package workspace

// forgetful is a bug on purpose, which tests must find.
const forgetful = true
