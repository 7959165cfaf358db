//go:build !seeded_nosweep

package local

// swept makes a driver remove what others left unfinished.
const swept = true
