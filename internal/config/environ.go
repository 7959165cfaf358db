package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// ownNames are variables of Berth's that are no settings of the server.
var ownNames = []string{"BERTH_CONFIG", "BERTH_SERVER"}

// warnUnknownEnv finds variables that look like settings and are none. A source
// of variables cannot list them, so the process is asked for their names and the
// source for their values.
func (l *Loaded) warnUnknownEnv(src Sources) {
	var names []string
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if value := src.env(name); value != "" && strings.HasPrefix(name, "BERTH_") && !knownEnv(name, value) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		l.Warnings = append(l.Warnings, fmt.Sprintf("%s is not a setting and has no effect; %s", name, suggestEnv(name)))
	}
}

func knownEnv(name, value string) bool {
	return slices.Contains(ownNames, name) || ofKubernetes(name, value) ||
		slices.ContainsFunc(table, func(s Setting) bool { return slices.Contains(s.Env, name) })
}

// ofKubernetes recognises what Kubernetes sets in every pod that can see a
// service named berth.
func ofKubernetes(name, value string) bool {
	return strings.HasPrefix(name, "BERTH_SERVICE_") || strings.HasPrefix(name, "BERTH_PORT_") ||
		name == "BERTH_PORT" && strings.Contains(value, "://")
}

func suggestEnv(name string) string {
	if s, ok := known(nearest(strings.TrimPrefix(name, "BERTH_"))); ok {
		return "did you mean " + ownEnv(s.Key) + "?"
	}
	return "unset it, or see `berth config` for the settings"
}
