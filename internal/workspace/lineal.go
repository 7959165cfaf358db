//go:build !seeded_anylineage

package workspace

// lineal: only a history that goes on from the base deletes what the base has.
const lineal = true
