//go:build seeded_nograce

package engine

const graced = false
