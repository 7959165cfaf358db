//go:build !seeded_massdelete

package workspace

// massive: most of a tree is never deleted without being told to.
const massive = true
