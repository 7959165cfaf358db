//go:build seeded_retryseen

package turn

// unseen has a bug on purpose, which tests must find: a turn is tried again although its tools may have run.
func (w *work) unseen() bool { return true }
