//go:build !seeded_oldanswer

package engine

// fresh: nobody takes an answer for their own that is older than their wish.
const fresh = true
