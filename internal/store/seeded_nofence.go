//go:build seeded_nofence

package store

// fence lets a holder that lost its lease write on: a bug on purpose, which tests must find.
const fence = `sandboxes.id = $1 and cast($2 as bigint) > 0`
