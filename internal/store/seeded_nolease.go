//go:build seeded_nolease

package store

// leaseFree grants a lease that is held: a bug on purpose, which tests must find.
const leaseFree = `leases.until is not null`
