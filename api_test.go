package berth_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/surface"
)

// The exported API changes only on purpose: a line that disappears from the golden file, or changes, breaks
// programs that embed Berth.
func TestExportedAPI(t *testing.T) {
	testkit.Proves(t, "X9")
	a, err := surface.Load(".")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "testdata/api.txt", a.Text())
	for _, leak := range a.Leaks() {
		t.Error(leak)
	}
	if missing := a.Undocumented(); len(missing) > 0 {
		t.Errorf("without a comment: %s", strings.Join(missing, ", "))
	}
}

// A program that moves between an embedded Berth and a server finds the same methods.
func TestClientHasTheSameMethods(t *testing.T) {
	names := func(s reflect.Type) (all []string) {
		for i := range s.NumMethod() {
			all = append(all, s.Method(i).Name)
		}
		return all
	}
	embedded := slices.DeleteFunc(names(reflect.TypeFor[*berth.Sandbox]()), func(name string) bool {
		return name == "Account" // a client has the account of its key
	})
	if remote := names(reflect.TypeFor[*client.Sandbox]()); !slices.Equal(embedded, remote) {
		t.Errorf("berth.Sandbox has %v, client.Sandbox %v", embedded, remote)
	}
}
