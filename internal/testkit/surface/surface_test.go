package surface_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/testkit/surface"
)

// module writes a module of files and returns the directory of its package.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.com/x\n\ngo 1.26\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const hidden = `package hidden

type T struct{}

type G[X any] struct{}
`

const public = `// Package x is one.
package x

import (
	"io"

	"example.com/x/internal/hidden"
)

// Words.
const A, B = 1, "b"

// V is a variable.
var V = hidden.T{}

// F mentions nothing hidden.
func F(r io.Reader) (n int, err error) { return 0, nil }

// Bad mentions a hidden type in a slice.
func Bad(...[]*hidden.T) {}

// Alias is one.
type Alias = hidden.T

// I is an interface.
type I interface {
	Get(map[string]hidden.T) (chan [2]int)
	io.Reader
}

// S has fields.
type S struct {
	Name   string // documented
	Open   hidden.G[int]
	secret hidden.T
}

// Do does.
func (s *S) Do(f func(hidden.T)) {}

func (s S) Undocumented() {}

func (s S) inner() hidden.T { return s.secret }

type small int

// Exported is not seen from outside.
func (small) Exported(hidden.T) {}

type Plain int
`

func TestExportedNamesAreRead(t *testing.T) {
	a, err := surface.Load(module(t, map[string]string{"x.go": public, "x_test.go": "package x\n\nfunc OfTests() {}\n", "internal/hidden/h.go": hidden}))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"const A untyped int = 1", `const B untyped string = "b"`,
		"func (*S).Do(f func(example.com/x/internal/hidden.T))", "func (S).Undocumented()",
		"func Bad(...[]*example.com/x/internal/hidden.T)", "func F(r io.Reader) (n int, err error)",
		"type Alias = example.com/x/internal/hidden.T",
		"type I interface{Get(map[string]example.com/x/internal/hidden.T) chan [2]int; io.Reader}",
		"type Plain int", "type S struct", "type S struct, Name string", "type S struct, Open example.com/x/internal/hidden.G[int]",
		"var V example.com/x/internal/hidden.T",
	}
	if got := a.Text(); got != strings.Join(want, "\n")+"\n" {
		t.Errorf("the API is\n%s", got)
	}
	leaks := []string{
		"Alias mentions example.com/x/internal/hidden.T", "Bad mentions example.com/x/internal/hidden.T",
		"I.Get mentions example.com/x/internal/hidden.T", "S.Do mentions example.com/x/internal/hidden.T",
		"S.Open mentions example.com/x/internal/hidden.G", "V mentions example.com/x/internal/hidden.T",
	}
	if got := a.Leaks(); strings.Join(got, "\n") != strings.Join(leaks, "\n") {
		t.Errorf("the leaks are\n%s", strings.Join(got, "\n"))
	}
	if got := strings.Join(a.Undocumented(), " "); got != "S.Open S.Undocumented Plain" {
		t.Errorf("undocumented: %s", got)
	}
}

func TestPackagesThatCannotBeRead(t *testing.T) {
	for name, text := range map[string]string{"does not parse": "package x\nfunc {", "does not compile": "package x\n\nvar A int = \"\"\n", "only tests": ""} {
		files := map[string]string{"x_test.go": "package x\n"}
		if text != "" {
			files["x.go"] = text
		}
		if _, err := surface.Load(module(t, files)); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
}
