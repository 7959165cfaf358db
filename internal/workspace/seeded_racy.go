//go:build seeded_racy

package workspace

const racy = false
