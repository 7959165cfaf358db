//go:build seeded_nosweep

package local

// swept leaves lying what others left unfinished: a bug on purpose,
// which tests must find.
const swept = false
