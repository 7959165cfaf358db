//go:build seeded_unfenced

package workspace

const fenced = false
