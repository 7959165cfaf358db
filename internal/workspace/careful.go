//go:build !seeded_careless

package workspace

// careless: what was changed here since the trees were compared is neither overwritten nor deleted.
const careless = false
