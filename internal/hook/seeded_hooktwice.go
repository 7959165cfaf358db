//go:build seeded_hooktwice

package hook

import "github.com/berthdev/berth/internal/store"

// once makes a command another one each time: a bug on purpose, which tests must find.
func once() string { return "-" + store.NewID()[24:] }
