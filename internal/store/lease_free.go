//go:build !seeded_nolease

package store

// leaseFree is when a lease may be taken.
const leaseFree = `leases.until <= {now}`
