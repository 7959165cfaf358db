//go:build !seeded_retryseen

package turn

// unseen says whether nothing of the turn was seen yet, so that trying it again does nothing twice.
func (w *work) unseen() bool { return !w.seen }
