package template

import (
	"slices"

	"github.com/berthdev/berth/internal/sandbox"
)

// AllTenants in a template's list of tenants means every tenant.
const AllTenants = "*"

// defaultTenant is the only tenant of templates that list none. Such templates are the operator's own; they may hold
// secrets, mounts, and access to the server's own network.
const defaultTenant = "default"

// Allows reports whether the tenant may see the template and create sandboxes of it.
func (r *Registry) Allows(tenant, name string) bool {
	t, ok := r.all[name]
	return ok && (slices.Contains(t.Tenants, AllTenants) || slices.Contains(t.Tenants, tenant))
}

// NamesFor returns the names of the templates that the tenant may use.
func (r *Registry) NamesFor(tenant string) []string {
	return slices.DeleteFunc(r.Names(), func(name string) bool { return !r.Allows(tenant, name) })
}

// Naming returns the names of the tenant's templates that name the secret, in env_from or in a header of a service.
func (r *Registry) Naming(tenant, secret string) []string {
	return slices.DeleteFunc(r.NamesFor(tenant), func(name string) bool {
		t := r.all[name]
		return !slices.Contains(t.EnvFrom, secret) && !slices.Contains(t.HeaderNames(), secret)
	})
}

// checkTenants refuses an empty list, and invalid or repeated names.
func (c *checker) checkTenants() {
	const fix = `write the names of tenants, such as tenants = ["default", "acme"], or tenants = ["*"] for all of them`
	if c.Tenants != nil && len(c.Tenants) == 0 {
		c.refuse("tenants", "", "is empty, so that the template is of no use", fix)
	}
	for i, name := range c.Tenants {
		switch {
		case name == AllTenants && len(c.Tenants) > 1:
			c.refuse("tenants", name, "stands for all tenants, and there are others beside it", fix)
		case name != AllTenants && sandbox.CheckName(name) != nil:
			c.refuse("tenants", name, "is no name of a tenant", fix)
		case slices.Contains(c.Tenants[:i], name):
			c.refuse("tenants", name, "is there twice", fix)
		}
	}
}
