//go:build seeded_stale

package workspace

const rereads = false
