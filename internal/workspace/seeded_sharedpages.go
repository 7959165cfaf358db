//go:build seeded_sharedpages

package workspace

const sharedPages = true
