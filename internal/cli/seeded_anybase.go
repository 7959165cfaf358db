//go:build seeded_anybase

package cli

const grounded = false
