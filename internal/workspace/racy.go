//go:build !seeded_racy

package workspace

// racy: a file that changed at about the time of a scan is read again at the next.
const racy = true
