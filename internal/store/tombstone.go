//go:build !seeded_revived

package store

// living keeps wishes away from tombstones.
const living = "deleted_at is null"
