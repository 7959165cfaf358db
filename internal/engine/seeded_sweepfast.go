//go:build seeded_sweepfast

package engine

// leased is off: a sweep ends what no record names, though it may be on its way. A bug on purpose, which
// tests must find.
const leased = false
