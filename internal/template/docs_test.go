package template_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/template"
)

func TestReferencePageHasEveryKey(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/templates.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[template.Template](), reflect.TypeFor[template.Timers]()} {
		for i := range typ.NumField() {
			if key := typ.Field(i).Tag.Get("toml"); key != "-" && !strings.Contains(string(page), "`"+key+"`") {
				t.Errorf("the page has no %s", key)
			}
		}
	}
}

func TestReferencePageShowsATemplateThatWorks(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/templates.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```toml\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the page has no example")
	}
	r, report := at(t, example).load(t)
	if report.Err() != nil || len(report.Warnings) > 0 || len(lookup(t, r, "web").Egress) != 2 {
		t.Errorf("%+v", report)
	}
}
