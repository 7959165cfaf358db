//go:build !seeded_overtaken

package engine

// overtakes: a wish that was overtaken by another is not begun.
const overtakes = true
