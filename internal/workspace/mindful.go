//go:build !seeded_forgetful

package workspace

// forgetful takes a version of one's own for somebody else's.
const forgetful = false
