//go:build seeded_unreadable

package engine

// strict is off: an instance that cannot be asked about is lost, a record that cannot be read does not
// exist. A bug on purpose, which tests must find.
const strict = false
