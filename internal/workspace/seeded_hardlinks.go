//go:build seeded_hardlinks

package workspace

const ownLinks = false
