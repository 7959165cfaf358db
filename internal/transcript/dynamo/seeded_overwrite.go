//go:build seeded_overwrite

package dynamo

// onlyNew is a seeded bug: a second put replaces the first.
func onlyNew() *string { return nil }
