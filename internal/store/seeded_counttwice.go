//go:build seeded_counttwice

package store

// counted has a bug on purpose, which tests must find: a message that is delivered again is counted again.
func counted(int64) bool { return false }
