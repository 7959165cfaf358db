//go:build !seeded_effect

package store

// onTakeover is what else changes when a dead holder's claim is taken over: nothing. The effect's id
// stays, so that what the dead holder made is found.
const onTakeover = ``
