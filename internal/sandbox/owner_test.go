package sandbox

import (
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

func TestOwnerValidate(t *testing.T) {
	good := []string{"a", "C0123:1700000000.000100", "dm:U42", "Zürich ✓", strings.Repeat("x", 255)}
	for _, id := range good {
		if err := (Owner{"default", OwnerThread, id}).Validate(); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	bad := []Owner{
		{"", OwnerThread, "a"}, {"default", "machine", "a"}, {"default", OwnerProject, ""},
		{"default", OwnerProject, strings.Repeat("x", 256)}, {"default", OwnerProject, "a\nb"},
		{"default", OwnerProject, "a\x00"}, {"default", OwnerProject, "\xff"},
	}
	for _, o := range bad {
		if err := o.Validate(); fault.CodeOf(err) != api.CodeInvalidID {
			t.Errorf("%q: %v", o, err)
		}
	}
}

func TestParseRef(t *testing.T) {
	const id = "01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10"
	for in, want := range map[string][2]string{
		id:                      {id, ""},
		strings.ToUpper(id):     {id, ""},
		"scratch":               {"", "scratch"},
		"7":                     {"", "7"},
		strings.Repeat("a", 63): {"", strings.Repeat("a", 63)},
	} {
		gotID, gotName, err := ParseRef(in)
		if err != nil || gotID != want[0] || gotName != want[1] {
			t.Errorf("%q: %q, %q, %v", in, gotID, gotName, err)
		}
	}
	for _, in := range []string{"", "-a", "A", "a_b", "a.b", "../x", "a b", "ä", strings.Repeat("a", 64), "{" + id + "}", nilID, strings.Repeat("y/", 100)} {
		if _, _, err := ParseRef(in); fault.CodeOf(err) != api.CodeInvalidID {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestNamesNeverLookLikeIDs(t *testing.T) {
	if err := CheckName("01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10"); fault.CodeOf(err) != api.CodeInvalidName {
		t.Errorf("got %v", err)
	}
}
