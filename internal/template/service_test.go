package template_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berthdev/berth/internal/template"
)

// Headers of services have the server's variables for those tenants alone that may use them, and never half a value.
func TestHeadersOfServicesAreFilledIn(t *testing.T) {
	r := template.New(template.Options{LookupEnv: func(name string) (string, bool) {
		return map[string]string{"THE_KEY": "sk-server"}[name], true
	}})
	const inside = "127.0.0.1:8788"
	headers := map[string]string{"x-api-key": "$THE_KEY", "authorization": "Bearer ${THE_KEY}$$", "x-other": "$NOT_SET, more", "x-plain": "text"}
	err := r.Add(template.Template{Name: "web", Tenants: []string{"*"}, Services: map[string]template.Service{inside: {URL: "http://127.0.0.1:4000", Headers: headers}}})
	if err != nil {
		t.Fatal(err)
	}
	for tenant, want := range map[string]map[string]string{
		"default": {"x-api-key": "sk-server", "authorization": "Bearer sk-server$", "x-other": "", "x-plain": "text"},
		"acme":    {"x-api-key": "", "authorization": "", "x-other": "", "x-plain": "text"},
	} {
		if got, err := r.ServiceHeaders(t.Context(), tenant, "web"); err != nil || fmt.Sprint(got[inside]) != fmt.Sprint(want) {
			t.Errorf("%s: %q, %v", tenant, got, err)
		}
	}
	if names := lookup(t, r, "web").HeaderNames(); !slices.Equal(names, []string{"NOT_SET", "THE_KEY"}) {
		t.Errorf("names %q", names)
	}
	if !slices.Contains(r.Secrets(), "sk-server") {
		t.Error("logs do not leave out the value of a header")
	}
}
