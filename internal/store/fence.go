//go:build !seeded_nofence

package store

// fence is what a holder's writes are fenced by: $1 is the sandbox's id, $2 the lease's epoch.
const fence = `sandboxes.id = $1 and generation = $2`
