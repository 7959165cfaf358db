//go:build seeded_massdelete

package workspace

const massive = false
