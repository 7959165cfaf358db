//go:build seeded_revived

package store

// A wish that comes a moment after a delete revives what was deleted.
const living = "true"
