//go:build seeded_md5

package workspace

const strongSum = false
