//go:build !seeded_quota

package store

// oneMore is how a count grows: from what it is when this statement's turn comes.
const oneMore = `quotas.used + 1`
