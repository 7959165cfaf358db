//go:build seeded_untidy

package engine

// tidy is off: what a failed start made stays. A bug on purpose, which tests must find.
const tidy = false
