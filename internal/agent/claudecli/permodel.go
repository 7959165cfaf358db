//go:build !seeded_resultusage

package claudecli

import "github.com/berthdev/berth/api"

// perModel is what the whole process used of all models. The line's other figure leaves out sub-agents and
// streams that broke.
func (l *resultLine) perModel() (sum api.Usage, ok bool) {
	for _, m := range l.PerModel {
		sum = sum.Add(api.Usage{
			InputTokens: count(m.Input), OutputTokens: count(m.Output),
			CacheReadTokens: count(m.CacheRead), CacheWriteTokens: count(m.CacheWrite),
		})
	}
	return sum, l.PerModel != nil
}
