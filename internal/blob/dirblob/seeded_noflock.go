//go:build seeded_noflock

package dirblob

// lockFile lets two processes replace one object at once: a bug on purpose, which tests must find.
func lockFile(int) error { return nil }
