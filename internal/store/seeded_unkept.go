//go:build seeded_unkept

package store

// keepsPrompts lets prompts be accepted without their messages: a bug on purpose, which tests must find.
const keepsPrompts = false
