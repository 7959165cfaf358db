package template

import (
	"maps"
	"slices"
	"strings"
)

// secretWords are the last words of names of variables whose values are secrets.
var secretWords = []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS", "PAT"}

// isSecretName reports whether the name of a variable says that its value is a secret: GITHUB_TOKEN, but not KEY_FILE.
func isSecretName(name string) bool {
	last := strings.ToUpper(name[strings.LastIndexByte(name, '_')+1:])
	return slices.Contains(secretWords, last) || strings.HasSuffix(last, "APIKEY") || strings.HasSuffix(last, "PASSWORD")
}

// Redacts reports whether the values of secrets are replaced in what agents in sandboxes of the template print.
func (t Template) Redacts() bool { return t.Redact == nil || *t.Redact }

// NamesSecret reports whether a variable of the template's sandboxes is a secret: EnvFrom lists it, or its name says
// so.
func (t Template) NamesSecret(variable string) bool {
	return slices.Contains(t.EnvFrom, variable) || isSecretName(variable)
}

// SecretVariables calls add for the secrets in the variables of the template and of its MCP servers, and for the
// server's variables that the template passes to the tenant.
func (r *Registry) SecretVariables(tenant, name string, add func(variable, value string)) {
	t := r.all[name]
	if tenant == defaultTenant || slices.Contains(t.Tenants, tenant) {
		for variable, value := range r.serverEnv(append(t.HeaderNames(), t.EnvFrom...)) {
			add(variable, value)
		}
	}
	envs := []map[string]string{t.Env}
	for _, s := range t.MCPServers {
		envs = append(envs, s.Env)
	}
	for _, env := range envs {
		for _, variable := range slices.Sorted(maps.Keys(env)) {
			if t.NamesSecret(variable) {
				add(variable, env[variable])
			}
		}
	}
}
