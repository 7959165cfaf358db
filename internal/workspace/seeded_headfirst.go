//go:build seeded_headfirst

package workspace

const headFirst = true
