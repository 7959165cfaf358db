//go:build seeded_effect

package store

// onTakeover forgets the effect's id with its dead holder: a bug on purpose, which tests must find.
const onTakeover = `, effect_id = excluded.effect_id`
