//go:build seeded_noseccomp

package boot

// filtered leaves the system call filter out: a bug on purpose,
// which tests must find.
const filtered = false
