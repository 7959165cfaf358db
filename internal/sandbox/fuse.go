//go:build !seeded_nobreaker

package sandbox

// fused: recoveries that do not last come to an end.
const fused = true
