//go:build seeded_nobreaker

package sandbox

// fused is off: a sandbox is recovered for ever. A bug on purpose, which tests must find.
const fused = false
