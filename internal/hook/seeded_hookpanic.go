//go:build seeded_hookpanic

package hook

// catches lets a panicking hook crash the server: a bug on purpose, which tests must find.
const catches = false
