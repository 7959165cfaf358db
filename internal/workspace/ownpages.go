//go:build !seeded_sharedpages

package workspace

// sharedPages: two writes of HEAD may use one key for the pages of the history.
const sharedPages = false
