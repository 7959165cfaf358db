//go:build seeded_resultusage

package claudecli

import "github.com/berthdev/berth/api"

// perModel believes the line's other figure: a bug on purpose, which tests must find.
func (l *resultLine) perModel() (sum api.Usage, ok bool) { return sum, false }
