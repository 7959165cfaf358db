//go:build seeded_loggap

package store

// logEnds lets a log go on behind events that were lost: a bug on purpose, which tests must find.
func logEnds(_, number string) string { return `cast(` + number + ` as bigint) >= 0` }
