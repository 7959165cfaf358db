package config

import "strings"

// suggest returns a suggestion for an unknown key.
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

// nearest returns the known key that is most similar to key, or the empty string if none is similar enough to be meant.
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

// nearestOf returns the key with the fewest edits from key, or the empty string if all need too many edits.
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

// Distance returns the number of insertions, deletions and replacements that change a into b.
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
