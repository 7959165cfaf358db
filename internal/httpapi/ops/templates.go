package ops

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/template"
)

const templatesPath = "/api/v1/templates"

func (a *handlers) addTemplates() {
	const tag = "Templates"
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodGet, Path: templatesPath, Name: "list-templates", Scope: api.ScopeRead},
		Tag:   tag, Summary: "List templates, by name",
		Description: "Lists the templates of the caller's tenant. Admins of the tenant default see those of all tenants.", Problems: []api.Code{api.CodeInvalidCursor},
	}, a.listTemplates)
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodGet, Path: templatesPath + "/{name}", Name: "get-template", Scope: api.ScopeRead},
		Tag:   tag, Summary: "Get a template", Problems: []api.Code{api.CodeNotFound},
	}, a.getTemplate)
}

// noID is the id in cursors of lists whose entries have no id.
const noID = "00000000-0000-0000-0000-000000000001"

func (a *handlers) listTemplates(ctx context.Context, in *struct{ rest.Paging }) (*rest.Reply[api.List[api.Template]], error) {
	c, err := rest.ParseCursor("templates", in.Cursor)
	if err != nil {
		return nil, err
	}
	names := a.templatesFor(ctx)
	from := int(min(c.At, int64(len(names))))
	to := min(from+in.Limit, len(names))
	out := rest.ListOf("templates", names[from:to], store.Position{}, func(name string) api.Template { return a.templateOut(ctx, name) })
	if to < len(names) {
		out.Body.NextCursor = rest.Cursor{List: "templates", At: int64(to), ID: noID}.String()
	}
	return out, nil
}

// templatesFor returns the names of the templates of the caller's tenant. Admins of the default tenant get all names.
func (a *handlers) templatesFor(ctx context.Context) []string {
	if requireOperator(ctx, "that") == nil {
		return a.Templates.Names()
	}
	return a.Templates.NamesFor(access.TenantOf(ctx))
}

type byName struct {
	Name string `path:"name" maxLength:"63" doc:"The template's name"`
}

func (a *handlers) getTemplate(ctx context.Context, in *byName) (*rest.Reply[api.Template], error) {
	if names := a.templatesFor(ctx); !slices.Contains(names, in.Name) {
		return nil, fault.Errorf("", api.CodeNotFound, "there is no template %q; there are %d others: GET %s lists them", in.Name, len(names), templatesPath)
	}
	return &rest.Reply[api.Template]{Body: a.templateOut(ctx, in.Name)}, nil
}

// templateOut converts a template for the caller. Only admins of the default tenant, who run the server, see paths on
// the server. Values of environment variables are never included.
func (a *handlers) templateOut(ctx context.Context, name string) api.Template {
	t, _ := a.Templates.Lookup(name) // the template exists: the name is from templatesFor
	runs := requireOperator(ctx, "that") == nil
	out := api.Template{
		Name: t.Name, Description: t.Description, Default: t.Name == a.Templates.Default(), BuiltIn: template.BuiltIn(t.Name), Extends: t.Extends,
		Driver: t.Driver, Base: t.Base, User: t.User, Profile: t.Profile, Resources: resourcesOut(t),
		Env: slices.Sorted(maps.Keys(t.Env)), Egress: t.Egress, Timers: timersOut(t.Timers),
		Image: t.Image, Runtime: t.Runtime, Agent: t.Agent, AgentCommand: t.AgentCommand, Model: t.Model, Models: t.Models, PermissionMode: t.Permissions, Volume: t.Volume,
		S3BucketName: t.S3BucketName, S3KeyPrefix: t.S3KeyPrefix, InitFromS3: t.InitFromS3, Sync: t.Sync, KeepLast: t.KeepLast, KeepDaily: t.KeepDaily, Layout: t.Layout,
		Unreachable: t.Unreachable, UnreachableAfter: t.UnreachableAfter.String(), Turns: t.Turns, MCPServers: slices.Sorted(maps.Keys(t.MCPServers)),
	}
	out.KeyEnv, out.EnvFrom, out.Redact = t.KeyEnv, t.EnvFrom, t.Redact
	// Secrets that cannot be read are reported by the turn that needs them.
	out.MissingKey, _ = a.Templates.MissingKey(ctx, access.TenantOf(ctx), name, nil)
	for _, h := range a.Templates.Hooks(name) {
		out.Hooks = append(out.Hooks, api.TemplateHook{Name: h.Title(), Phase: string(h.Phase), Kind: h.Kind()})
	}
	if runs {
		out.Tenants = t.Tenants
	} else if !a.Templates.Allows(access.TenantOf(ctx), t.Extends) {
		out.Extends = ""
	}
	if filepath.IsAbs(t.Base) && !runs {
		out.Base = "directory"
	}
	for _, m := range t.Mounts {
		out.Mounts = append(out.Mounts, api.TemplateMount{Target: m.Target, Source: only(runs, m.Source)})
	}
	for _, inside := range slices.Sorted(maps.Keys(t.Services)) {
		s := t.Services[inside]
		out.Services = append(out.Services, api.TemplateService{
			Listen: inside, Upstream: only(runs, s.URL), Headers: slices.Sorted(maps.Keys(s.Headers)), Secrets: s.Secrets(),
		})
	}
	return out
}

func only(may bool, text string) string {
	if may {
		return text
	}
	return ""
}

func resourcesOut(t template.Template) api.TemplateResources {
	l := t.Limits(t.Profile)
	return api.TemplateResources{
		CPU: l.CPU, MemoryBytes: l.MemoryBytes, DiskBytes: l.DiskBytes,
		Disk: cmp.Or(t.Disk.Kind, template.DiskAuto), Processes: l.Processes,
	}
}

func timersOut(t template.Timers) map[string]string {
	out := map[string]string{}
	for name, timer := range map[string]fmt.Stringer{
		"auto_stop": t.AutoStop, "auto_archive": t.AutoArchive, "auto_delete": t.AutoDelete, "max_age": t.MaxAge,
	} {
		if text := timer.String(); text != "" {
			out[name] = text
		}
	}
	return out
}
