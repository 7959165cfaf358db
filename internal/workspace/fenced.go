//go:build !seeded_unfenced

package workspace

// fenced: a push that began before bytes were collected does not commit.
const fenced = true
