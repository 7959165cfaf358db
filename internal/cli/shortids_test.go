package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
)

// TestShortIDs: the beginning or the end of an id is enough if it is the only one, on any page of the list.
func TestShortIDs(t *testing.T) {
	f := newFakeServer(t)
	for i := range 450 {
		f.sandboxes = append(f.sandboxes, api.Sandbox{ID: fmt.Sprintf("01970e4b-0000-7000-8000-0000%08x", i), Name: fmt.Sprint("box-", i), State: "running"})
	}
	f.sandboxes[0].Name = "0000012c" // the end of the id of box-300
	s := newShell(t, f)
	for ref, want := range map[string]string{
		"000001c1":          "box-449",
		"8000-0000000001c1": "box-449",
		"0000012c":          "0000012c",
		"box-300":           "box-300",
	} {
		if got := decode[api.Sandbox](t, s.ok("get", ref, "--json")); got.Name != want {
			t.Errorf("%s is %s, want %s", ref, got.Name, want)
		}
	}
	r := s.berth("get", "01970e4b-0000-7000-8000-00000000019")
	if want := `"01970e4b-0000-7000-8000-00000000019" is part of the ids of 16 sandboxes:`; r.code != 125 || !strings.Contains(r.err, want) ||
		!strings.Contains(r.err, "01970e4b-0000-7000-8000-000000000190  box-400\n") || !strings.Contains(r.err, "\n  …\n") {
		t.Errorf("%+v", r)
	}
	if r := s.berth("get", "00ffffff"); r.code != 125 || !strings.Contains(r.err, `00ffffff`) {
		t.Errorf("one that is not there: %+v", r)
	}
	for _, verb := range []string{"rm", "terminate"} {
		if r := s.berth(verb, "--yes", "000001c1"); r.code != 125 {
			t.Errorf("%s takes a part of an id: %+v", verb, r)
		} else if !strings.Contains(r.err, "01970e4b-0000-7000-8000-0000000001c1") {
			t.Errorf("%s does not name the whole id: %s", verb, r.err)
		}
	}
	if len(f.sandboxes) != 450 {
		t.Errorf("%d sandboxes are left", len(f.sandboxes))
	}
}
