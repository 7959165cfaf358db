//go:build seeded_collect

package workspace

const collecting = false
