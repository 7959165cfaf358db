//go:build !seeded_hasty

package sandbox

// patient: a single failed probe says little, and ends nothing.
const patient = true
