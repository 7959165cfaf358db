//go:build !seeded_tether

package boot

// untethered lets instances outlive the server.
const untethered = true
