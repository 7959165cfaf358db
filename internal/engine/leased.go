//go:build !seeded_sweepfast

package engine

// leased: a sweep leaves the instances of a sandbox that has a record to the holder of its lease.
const leased = true
