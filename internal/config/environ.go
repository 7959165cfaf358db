package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// otherVariables are Berth's environment variables that are not settings of the server.
var otherVariables = []string{"BERTH_CONFIG", "BERTH_SERVER", "BERTH_CA_FILE"}

// warnUnknownEnv warns about variables that begin with BERTH_ and are not settings. src can look up a variable but
// cannot list all names, so the names come from the process and the values from src.
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
	return slices.Contains(otherVariables, name) || setByKubernetes(name, value) ||
		slices.ContainsFunc(table, func(s Setting) bool { return slices.Contains(s.Env, name) })
}

// setByKubernetes reports whether Kubernetes sets the variable: it does so in every pod that can see a service named
// berth.
func setByKubernetes(name, value string) bool {
	return strings.HasPrefix(name, "BERTH_SERVICE_") || strings.HasPrefix(name, "BERTH_PORT_") ||
		name == "BERTH_PORT" && strings.Contains(value, "://")
}

func suggestEnv(name string) string {
	if s, ok := known(nearest(strings.TrimPrefix(name, "BERTH_"))); ok {
		return "did you mean " + ownEnv(s.Key) + "?"
	}
	return "unset it, or see `berth config` for the settings"
}
