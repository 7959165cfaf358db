//go:build !seeded_collect

package workspace

// collecting: only what no version has referred to for long is deleted.
const collecting = true
