//go:build seeded_careless

package workspace

const careless = true
