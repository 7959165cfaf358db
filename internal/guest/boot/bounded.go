//go:build !seeded_allcaps

package boot

// bounded leaves an instance's root the few capabilities that package managers need.
const bounded = true
