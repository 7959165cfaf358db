//go:build seeded_forget

package outbox

// keeps lets a message go after its first attempt: a bug on purpose, which tests must find.
const keeps = false
