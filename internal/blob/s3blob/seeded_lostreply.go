//go:build seeded_lostreply

package s3blob

// A write whose answer was lost is taken for somebody else's: a bug on purpose, which tests must find.
const doubtful, demanding = false, true
