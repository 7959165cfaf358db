//go:build seeded_shortbody

package s3blob

// A body that breaks off is taken for whole: a bug on purpose, which tests must find.
const doubtful, demanding = true, false
