//go:build seeded_nodirlock

package cli

const exclusive = false
