//go:build !seeded_halfwritten

package workspace

// marked: what a restore has not finished is known by its looks, and never taken for what somebody made.
const marked = true
