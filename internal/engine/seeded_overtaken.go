//go:build seeded_overtaken

package engine

const overtakes = false
