//go:build !seeded_turnfence

package store

// turnFence is what the writes of a turn's holder are fenced by: $1 is the turn's id, $2 the lease's epoch.
const turnFence = `turns.id = $1 and turns.epoch = $2 and finished_at is null`
