//go:build !seeded_untidy

package engine

// tidy: a start that failed takes along what it made.
const tidy = true
