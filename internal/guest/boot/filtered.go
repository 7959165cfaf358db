//go:build !seeded_noseccomp

package boot

// filtered makes the system call filter part of an instance.
const filtered = true
