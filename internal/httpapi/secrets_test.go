package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/testkit"
)

const secretsPath = "/api/v1/secrets"

func TestSecretsAreSetAndNeverShown(t *testing.T) {
	testkit.Proves(t, "E5")
	testkit.Proves(t, "E7")
	s := newSite(t, func(o *Options) {
		o.Templates = template.New(template.Options{Driver: "fake"})
		for _, own := range []template.Template{
			{Name: "own", Tenants: []string{"acme"}, EnvFrom: []string{"THE_KEY"}},
			{Name: "of-another", Tenants: []string{"other"}, EnvFrom: []string{"THE_KEY"}},
		} {
			if err := o.Templates.Add(own); err != nil {
				t.Fatal(err)
			}
		}
	})
	const canary, second = "canary-of-a-tenants-secret", "canary-of-its-second-value"
	put := func(key, name, body string) answer {
		return s.do(call{method: http.MethodPut, path: secretsPath + "/" + name, key: key, body: body})
	}
	first := put(s.admin, "THE_KEY", `{"value":"`+canary+`"}`).is(http.StatusOK)
	again := put(s.admin, "THE_KEY", `{"value":"`+second+`"}`).is(http.StatusOK)
	put(s.admin, "ALONE", `{"value":"x"}`).is(http.StatusOK)
	a, b := into[api.Secret](first), into[api.Secret](again)
	if a.Name != "THE_KEY" || len(a.Templates) != 1 || a.Templates[0] != "own" || b.CreatedAt != a.CreatedAt || b.UpdatedAt == a.UpdatedAt {
		t.Errorf("%+v, then %+v", a, b)
	}

	for _, key := range []string{s.read, s.write} {
		put(key, "THE_KEY", `{"value":"`+canary+`"}`).fails(api.CodeForbidden)
		s.do(call{method: http.MethodDelete, path: secretsPath + "/THE_KEY", key: key}).fails(api.CodeForbidden)
	}
	s.do(call{path: secretsPath, key: s.read}).fails(api.CodeForbidden)
	list := s.do(call{path: secretsPath + "?limit=1", key: s.write}).is(http.StatusOK)
	page := into[api.List[api.Secret]](list)
	if len(page.Items) != 1 || page.Items[0].Name != "ALONE" || len(page.Items[0].Templates) > 0 {
		t.Errorf("%+v", page)
	}
	rest := s.do(call{path: secretsPath + "?cursor=" + page.NextCursor, key: s.write}).is(http.StatusOK)
	if page = into[api.List[api.Secret]](rest); len(page.Items) != 1 || page.Items[0].Name != "THE_KEY" || page.NextCursor != "" {
		t.Errorf("%+v", page)
	}

	other := s.newKey("other", api.ScopeAdmin)
	if theirs := into[api.List[api.Secret]](s.do(call{path: secretsPath, key: other}).is(http.StatusOK)); len(theirs.Items) > 0 {
		t.Errorf("another tenant sees %+v", theirs)
	}
	s.do(call{method: http.MethodDelete, path: secretsPath + "/THE_KEY", key: other}).fails(api.CodeNotFound)

	for _, bad := range []struct{ name, body string }{
		{"1KEY", `{"value":"` + canary + `"}`}, {"A%20B", `{"value":"` + canary + `"}`}, {"A-B", `{"value":"` + canary + `"}`},
		{"BERTH_API_KEY", `{"value":"` + canary + `"}`}, {"KEY", `{"value":""}`}, {"KEY", `{}`}, {"KEY", `"` + canary + `"`},
		{"KEY", `{"value":"` + canary + `\u0000"}`}, {"KEY", `{"value":"` + strings.Repeat("ä", 5000) + `"}`},
		{"KEY", `{"value":"` + strings.Repeat("x", 8193) + `"}`}, {"KEY", `{"value":"` + canary + `","more":1}`}, {"KEY", `{"value":7}`},
	} {
		if refused := put(s.admin, bad.name, bad.body).fails(api.CodeInvalidRequest); strings.Contains(refused.Detail, canary) || strings.Contains(refused.Detail, "xxxx") {
			t.Errorf("%s %s: the answer repeats the value: %s", bad.name, bad.body, refused.Detail)
		}
	}
	s.do(call{method: http.MethodDelete, path: secretsPath + "/THE_KEY", key: s.admin}).is(http.StatusNoContent)
	s.do(call{method: http.MethodDelete, path: secretsPath + "/THE_KEY", key: s.admin}).fails(api.CodeNotFound)
	for name, text := range map[string]string{"log": s.log.String(), "answers": string(first.body) + string(again.body) + string(list.body) + string(rest.body)} {
		if strings.Contains(text, canary) || strings.Contains(text, second) {
			t.Errorf("the %s has the value", name)
		}
	}
}
