package config

import "strings"

// suggest says what an unknown key was probably meant to be.
func suggest(key string, v any) string {
	if section, ok := v.(map[string]any); ok {
		for inner := range section {
			if _, ok := known(inner); ok {
				return "write " + inner + " at the top of the file, before any [section]"
			}
		}
	}
	if near := nearest(key); near != "" {
		return "did you mean " + near + "?"
	}
	return "remove it; `berth config` lists the settings"
}

// nearest finds the known key that takes the fewest edits, or none if it is not
// near enough that a person would call it a slip.
func nearest(key string) string {
	given := strings.ReplaceAll(strings.ToLower(key), "-", "_")
	keys := []string{"templates"}
	for _, s := range table {
		keys = append(keys, s.Key)
		for _, env := range s.Env {
			if strings.EqualFold(env, given) {
				return s.Key
			}
		}
	}
	return nearestOf(key, keys)
}

// nearestOf finds the one of the keys that takes the fewest edits, or none.
func nearestOf(key string, keys []string) string {
	best, least := "", len(key)/3+2
	given := strings.ReplaceAll(strings.ToLower(key), "-", "_")
	for _, k := range keys {
		if d := Distance(given, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// Distance counts the insertions, deletions and replacements between a and b.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j]+1, row[j+1]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
