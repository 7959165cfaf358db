//go:build seeded_partsfirst

package dynamo

// inOrder is a seeded bug: the head is there before its parts.
func inOrder(head item, parts []item) []item { return append([]item{head}, parts...) }
