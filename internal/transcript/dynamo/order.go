//go:build !seeded_partsfirst

package dynamo

// inOrder is in which order the items of a message are put: who finds the head finds everything.
func inOrder(head item, parts []item) []item { return append(parts, head) }
