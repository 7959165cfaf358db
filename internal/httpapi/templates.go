package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/template"
)

const templatesPath = "/api/v1/templates"

func (a *Handler) addTemplates() {
	const tag = "Templates"
	serve(a, operation{
		route: route{Method: http.MethodGet, Path: templatesPath, Name: "list-templates", Scope: api.ScopeRead},
		Tag:   tag, Summary: "List templates, by name", Problems: []api.Code{api.CodeInvalidCursor},
	}, a.listTemplates)
	serve(a, operation{
		route: route{Method: http.MethodGet, Path: templatesPath + "/{name}", Name: "get-template", Scope: api.ScopeRead},
		Tag:   tag, Summary: "Read a template", Problems: []api.Code{api.CodeNotFound},
	}, a.getTemplate)
}

// noID stands in cursors of lists whose entries have no id.
const noID = "00000000-0000-0000-0000-000000000001"

func (a *Handler) listTemplates(ctx context.Context, in *struct{ Paging }) (*reply[api.List[api.Template]], error) {
	c, err := parseCursor("templates", in.Cursor)
	if err != nil {
		return nil, err
	}
	names := a.Templates.Names()
	from := int(min(c.at, int64(len(names))))
	to := min(from+in.Limit, len(names))
	out := listOf("templates", names[from:to], store.Position{}, func(name string) api.Template { return a.templateOut(ctx, name) })
	if to < len(names) {
		out.Body.NextCursor = cursor{"templates", int64(to), noID}.String()
	}
	return out, nil
}

type byName struct {
	Name string `path:"name" maxLength:"63" doc:"Its name"`
}

func (a *Handler) getTemplate(ctx context.Context, in *byName) (*reply[api.Template], error) {
	if names := a.Templates.Names(); !slices.Contains(names, in.Name) {
		return nil, sandbox.Errorf("", api.CodeNotFound, "there is no template %q; there are %d others: GET %s lists them", in.Name, len(names), templatesPath)
	}
	return &reply[api.Template]{a.templateOut(ctx, in.Name)}, nil
}

// templateOut is a template as the caller may see it. Where things are on the server is for those who
// run it, the admins of the default tenant; values of the environment are for nobody.
func (a *Handler) templateOut(ctx context.Context, name string) api.Template {
	t, _ := a.Templates.Lookup(name) // the name is one of Names
	runs := operators(ctx, "that") == nil
	out := api.Template{
		Name: t.Name, Description: t.Description, Default: t.Name == a.Templates.Default, BuiltIn: template.BuiltIn(t.Name), Extends: t.Extends,
		Driver: t.Driver, Base: t.Base, User: t.User, Profile: t.Profile, Resources: resourcesOut(t),
		Env: slices.Sorted(maps.Keys(t.Env)), Egress: t.Egress, Timers: timersOut(t.Timers),
		Image: t.Image, Runtime: t.Runtime, AgentCommand: t.AgentCommand, Volume: t.Volume,
		S3BucketName: t.S3BucketName, S3KeyPrefix: t.S3KeyPrefix, InitFromS3: t.InitFromS3, Sync: t.Sync, KeepLast: t.KeepLast, KeepDaily: t.KeepDaily, Layout: t.Layout,
		Unreachable: t.Unreachable, UnreachableAfter: t.UnreachableAfter.String(), Turns: t.Turns, MCPServers: slices.Sorted(maps.Keys(t.MCPServers)),
	}
	for _, h := range a.Templates.Hooks(name) {
		out.Hooks = append(out.Hooks, api.TemplateHook{Name: h.Title(), Phase: string(h.Phase), Kind: h.Kind()})
	}
	if filepath.IsAbs(t.Base) && !runs {
		out.Base = "directory"
	}
	for _, m := range t.Mounts {
		out.Mounts = append(out.Mounts, api.TemplateMount{Target: m.Target, Source: only(runs, m.Source)})
	}
	for _, inside := range slices.Sorted(maps.Keys(t.Services)) {
		out.Services = append(out.Services, api.TemplateService{Listen: inside, Upstream: only(runs, t.Services[inside])})
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
		Disk: cmp.Or(t.Disk.Kind, template.DiskSoft), Processes: l.Processes,
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
