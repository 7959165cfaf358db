//go:build seeded_halfwritten

package workspace

const marked = false
