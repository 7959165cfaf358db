//go:build !seeded_counttwice

package store

// counted says, of the row that a message had in the outbox, whether it was counted before: then it is gone.
func counted(rows int64) bool { return rows == 0 }
