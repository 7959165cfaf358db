//go:build !seeded_coldignored

package hook

// heeds says that the error of a cold start's hook fails the start.
const heeds = true
