//go:build seeded_turnfence

package store

// turnFence lets a holder that lost its lease write on: a bug on purpose, which tests must find.
const turnFence = `turns.id = $1 and cast($2 as bigint) > 0 and finished_at is null`
