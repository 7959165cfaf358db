//go:build seeded_nomask

package boot

// veiled shows in /proc what belongs to the host: a bug on purpose,
// which tests must find.
const veiled = false
