//go:build seeded_anylineage

package workspace

const lineal = false
