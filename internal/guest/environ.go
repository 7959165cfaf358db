package guest

import "strings"

// LastOfEach leaves the last value of each variable of an environment: which of several counts, programs do
// not agree on.
func LastOfEach(env []string) []string {
	at := make(map[string]int, len(env))
	for i, v := range env {
		name, _, _ := strings.Cut(v, "=")
		at[name] = i
	}
	kept := env[:0]
	for i, v := range env {
		if name, _, _ := strings.Cut(v, "="); at[name] == i {
			kept = append(kept, v)
		}
	}
	return kept
}
