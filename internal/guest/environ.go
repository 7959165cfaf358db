package guest

import "strings"

// LastOfEach removes all but the last value of each variable from env. Programs differ in which value they use if a
// variable has several.
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
