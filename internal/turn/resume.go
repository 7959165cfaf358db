//go:build !seeded_resumeshort

package turn

// resume is the event behind which a reader goes on that saw events up to this one.
func resume(after int64) int64 { return after }
