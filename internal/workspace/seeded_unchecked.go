//go:build seeded_unchecked

package workspace

const digested = false
