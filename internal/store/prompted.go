//go:build !seeded_unkept

package store

// keepsPrompts says that a turn and the message that it answers are written together.
const keepsPrompts = true
