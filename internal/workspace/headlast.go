//go:build !seeded_headfirst

package workspace

// headFirst: HEAD moves only once everything that the version needs is stored.
const headFirst = false
