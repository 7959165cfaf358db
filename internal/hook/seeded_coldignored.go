//go:build seeded_coldignored

package hook

// heeds lets a sandbox start although its cold start failed: a bug on purpose, which tests must find.
const heeds = false
