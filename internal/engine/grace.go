//go:build !seeded_nograce

package engine

// graced: an instance that nobody claims is left alone for a while.
const graced = true
