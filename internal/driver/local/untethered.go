//go:build !seeded_tether

package local

// untethered lets instances outlive the server.
const untethered = true
