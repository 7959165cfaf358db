//go:build !seeded_unchecked

package workspace

// digested: a manifest is only believed if it is the one that was committed.
const digested = true
