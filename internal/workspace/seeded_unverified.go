//go:build seeded_unverified

package workspace

const verified = false
