package archtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

func TestBerth(t *testing.T) {
	m, err := Load(os.DirFS(moduleRoot(t)))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Packages) < 2 {
		t.Fatalf("only %d packages found", len(m.Packages))
	}
	for _, rule := range Rules {
		t.Run(strings.ReplaceAll(rule.Name, " ", "-"), func(t *testing.T) {
			for _, found := range rule.Check(m) {
				t.Error(found)
			}
		})
	}
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}

// tree makes a module of files: their paths and texts.
func tree(t *testing.T, files map[string]string) *Module {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	m, err := Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// src is a documented Go file of the package in dir with the given imports.
func src(name string, imports ...string) string {
	text := "// Package " + name + " is one.\npackage " + name + "\n"
	for _, path := range imports {
		text += "import _ \"" + path + "\"\n"
	}
	return text
}

func ours(path string) string { return modulePath + "/" + path }

// ruleCase is a tree and how many findings the rule must have in it.
type ruleCase struct {
	files map[string]string
	want  int
}

var ruleCases = map[string]map[string]ruleCase{
	"packages have a layer": {
		"known":        {map[string]string{"internal/store/a.go": src("store"), "cmd/berth/main.go": src("main")}, 0},
		"below known":  {map[string]string{"internal/driver/docker/a.go": src("docker")}, 0},
		"unknown":      {map[string]string{"internal/mystery/a.go": src("mystery")}, 1},
		"like known":   {map[string]string{"internal/storeroom/a.go": src("storeroom")}, 1},
		"only tests":   {map[string]string{"internal/mystery/a_test.go": src("mystery")}, 0},
		"other module": {map[string]string{"internal/mystery/go.mod": "module x", "internal/mystery/a.go": src("mystery")}, 0},
		"test data":    {map[string]string{"internal/store/testdata/x/a.go": src("x")}, 0},
		"does not parse": {map[string]string{
			"internal/mystery/a.go": "package mystery\nfunc {"}, 0},
	},
	"imports go down": {
		"suite, testkit":  {map[string]string{"internal/store/storetest/a.go": src("storetest", ours("internal/testkit/pgtest"))}, 0},
		"source, testkit": {map[string]string{"internal/store/a.go": src("store", ours("internal/testkit/pgtest"))}, 1},
		"down":            {map[string]string{"internal/engine/a.go": src("engine", ours("internal/sandbox"), ours("internal/driver"))}, 0},
		"up":              {map[string]string{"internal/sandbox/a.go": src("sandbox", ours("internal/engine"))}, 1},
		"up in a test":    {map[string]string{"internal/sandbox/a_test.go": src("sandbox", ours("internal/engine"))}, 0},
		"sideways":        {map[string]string{"internal/blob/a.go": src("blob", ours("internal/workspace"))}, 1},
		"allowed":         {map[string]string{"internal/workspace/a.go": src("workspace", ours("internal/blob"), ours("internal/telemetry"))}, 0},
		"seam":            {map[string]string{"internal/driver/fake/a.go": src("fake", ours("internal/driver"), ours("api"))}, 0},
		"own parts":       {map[string]string{"internal/guest/a.go": src("guest", ours("internal/guest/wire"))}, 0},
		"front ends":      {map[string]string{"internal/httpapi/a.go": src("httpapi", ours("internal/cli"))}, 1},
		"app to main":     {map[string]string{"internal/app/a.go": src("app", ours("cmd/berth"))}, 1},
		"api imports up":  {map[string]string{"api/a.go": src("api", ours("internal/sandbox"))}, 1},
		"unknown":         {map[string]string{"internal/mystery/a.go": src("mystery", ours("internal/app"))}, 0},
	},
	"core packages are self-contained": {
		"standard library": {map[string]string{"api/a.go": src("api", "net/http"), "internal/sandbox/a.go": src("sandbox", "time", ours("api"))}, 0},
		"foreign in api":   {map[string]string{"api/a.go": src("api", "github.com/google/uuid")}, 1},
		"foreign in core":  {map[string]string{"internal/sandbox/a.go": src("sandbox", "golang.org/x/sync/errgroup")}, 1},
		"client":           {map[string]string{"client/a.go": src("client", ours("api"), ours("internal/config"))}, 1},
		"testkit":          {map[string]string{"internal/testkit/a.go": src("testkit", "github.com/google/go-cmp/cmp")}, 1},
		"below testkit":    {map[string]string{"internal/testkit/pgtest/a.go": src("pgtest", "github.com/jackc/pgx/v5")}, 0},
	},
	"only app imports implementations": {
		"app":            {map[string]string{"internal/app/a.go": src("app", ours("internal/driver/fake"), ours("internal/store"))}, 0},
		"engine, driver": {map[string]string{"internal/engine/a.go": src("engine", ours("internal/driver/fake"))}, 1},
		"engine, test":   {map[string]string{"internal/engine/a_test.go": src("engine", ours("internal/driver/fake"))}, 0},
		"engine, seam":   {map[string]string{"internal/engine/a.go": src("engine", ours("internal/driver"), ours("internal/store"))}, 0},
		"seam":           {map[string]string{"internal/driver/a.go": src("driver", ours("internal/driver/local"))}, 1},
		"another driver": {map[string]string{"internal/driver/local/a.go": src("local", ours("internal/driver/docker"))}, 1},
		"own parts":      {map[string]string{"internal/driver/local/a.go": src("local", ours("internal/driver/local/net"))}, 0},
		"bench":          {map[string]string{"bench/a.go": src("bench", ours("internal/driver/fake"))}, 0},
		"suite":          {map[string]string{"internal/driver/drivertest/a.go": src("drivertest", ours("internal/driver"))}, 0},
	},
	"test packages stay in tests": {
		"test":          {map[string]string{"internal/store/a_test.go": src("store", ours("internal/testkit"))}, 0},
		"source":        {map[string]string{"internal/store/a.go": src("store", ours("internal/testkit"))}, 1},
		"below testkit": {map[string]string{"internal/app/a.go": src("app", ours("internal/testkit/pgtest"))}, 1},
		"suite":         {map[string]string{"internal/driver/drivertest/a.go": src("drivertest", ours("internal/testkit"))}, 0},
		"suite in app":  {map[string]string{"internal/app/a.go": src("app", ours("internal/driver/drivertest"))}, 1},
		"bench":         {map[string]string{"bench/a.go": src("bench", ours("internal/testkit/pgtest"))}, 0},
	},
	"one package doc each": {
		"one":         {map[string]string{"internal/store/a.go": src("store"), "internal/store/b.go": "package store\n"}, 0},
		"none":        {map[string]string{"internal/store/a.go": "package store\n"}, 1},
		"two":         {map[string]string{"internal/store/a.go": src("store"), "internal/store/b.go": src("store")}, 1},
		"directive":   {map[string]string{"internal/store/a.go": "//go:build linux\n\npackage store\n"}, 1},
		"wrong start": {map[string]string{"internal/store/a.go": "// This is the store.\npackage store\n"}, 1},
		"command":     {map[string]string{"cmd/berth/main.go": "// Command berth is all of it.\npackage main\n"}, 0},
		"program":     {map[string]string{"cmd/berth/main.go": "// Berth is all of it.\npackage main\n"}, 0},
		"no command":  {map[string]string{"cmd/berth/main.go": "// This is all of it.\npackage main\n"}, 1},
		"only tests":  {map[string]string{"internal/store/a_test.go": "package store\n"}, 0},
	},
	"exported names are documented": {
		"all documented": {map[string]string{"internal/store/a.go": src("store") + `
// Store is one.
type Store[T any] struct{ Field int }

// Get gets.
func (s *Store[T]) Get() {}

func (s *Store[T]) Close() error { return nil }

func (s *Store[T]) hidden() {}

type private struct{}

func (private) Visible() {}

// These are words.
const (
	A = 1
	B = 2
)

const (
	// C is three.
	C = 3
	D = 4 // D is four
	e = 5
)
`}, 0},
		"func":     {map[string]string{"internal/store/a.go": src("store") + "func Open() {}\n"}, 1},
		"method":   {map[string]string{"internal/store/a.go": src("store") + "// S is.\ntype S[K, V any] struct{}\nfunc (S[K, V]) Get() {}\n"}, 1},
		"type":     {map[string]string{"internal/store/a.go": src("store") + "type S struct{}\n"}, 1},
		"in group": {map[string]string{"internal/store/a.go": src("store") + "// All.\ntype (\n S struct{}\n T struct{}\n)\n"}, 2},
		"const":    {map[string]string{"internal/store/a.go": src("store") + "const A, b = 1, 2\n"}, 1},
		"var":      {map[string]string{"internal/store/a.go": src("store") + "var A, B int\n"}, 2},
		"directive is no doc": {map[string]string{
			"internal/store/a.go": src("store") + "//go:noinline\nfunc Open() {}\n"}, 1},
		"generated": {map[string]string{"internal/store/a.go": "// Code generated by hand. DO NOT EDIT.\n\n" + src("store") + "func Open() {}\n"}, 0},
		"command":   {map[string]string{"cmd/berth/main.go": "package main\nfunc Open() {}\n"}, 0},
		"test":      {map[string]string{"internal/store/a_test.go": src("store") + "func TestOpen() {}\n"}, 0},
	},
	"main stays small": {
		"absent": {map[string]string{"internal/store/a.go": src("store")}, 0},
		"forty":  {map[string]string{"cmd/berth/main.go": strings.Repeat("\n", 40)}, 0},
		"more":   {map[string]string{"cmd/berth/main.go": strings.Repeat("\n", 41)}, 1},
	},
	"tests do not sleep": {
		"source":    {map[string]string{"internal/store/a.go": src("store", "time") + "func f() { time.Sleep(1) }\n"}, 0},
		"test":      {map[string]string{"internal/store/a_test.go": "package store\nimport \"time\"\nfunc f() { time.Sleep(1) }\n"}, 1},
		"renamed":   {map[string]string{"internal/store/a_test.go": "package store\nimport clock \"time\"\nfunc f() { clock.Sleep(1) }\n"}, 1},
		"as value":  {map[string]string{"internal/store/a_test.go": "package store\nimport \"time\"\nvar pause = time.Sleep\n"}, 1},
		"in bubble": {map[string]string{"internal/store/a_test.go": "package store\nimport (\"time\"; \"testing/synctest\")\nfunc f() { synctest.Test(nil, func() { time.Sleep(1) }) }\n"}, 0},
		"other":     {map[string]string{"internal/store/a_test.go": "package store\nimport \"x/time\"\nfunc f() { time.Sleep(1) }\n"}, 0},
	},
	"files stay readable": {
		"600":       {map[string]string{"internal/store/a.go": src("store") + strings.Repeat("\n", 598)}, 0},
		"601":       {map[string]string{"internal/store/a.go": src("store") + strings.Repeat("\n", 599)}, 1},
		"test":      {map[string]string{"internal/store/a_test.go": src("store") + strings.Repeat("\n", 599)}, 1},
		"generated": {map[string]string{"internal/store/a.go": "// Code generated by hand. DO NOT EDIT.\n\n" + src("store") + strings.Repeat("\n", 599)}, 0},
	},
	"package names mean something": {
		"good":      {map[string]string{"internal/store/a.go": src("store")}, 0},
		"util":      {map[string]string{"internal/util/a.go": src("util")}, 1},
		"folder":    {map[string]string{"internal/services/store/a.go": src("store")}, 1},
		"in source": {map[string]string{"internal/store/a.go": src("helpers")}, 1},
	},
	"comments promise nothing": {
		"good":  {map[string]string{"internal/store/a.go": src("store") + "// f does it.\nfunc f() {}\nvar s = \"TODO\"\n"}, 0},
		"later": {map[string]string{"internal/store/a.go": src("store") + "// TODO: write f.\n"}, 1},
		"test":  {map[string]string{"internal/store/a_test.go": src("store") + "// FIXME\n"}, 1},
	},
	"docs name real packages": {
		"real":    {map[string]string{"README.md": "see `internal/store` and `internal/driver/fake`"}, 0},
		"unreal":  {map[string]string{"docs/x.md": "see `internal/mystery`"}, 1},
		"not .md": {map[string]string{"docs/x.txt": "see `internal/mystery`"}, 0},
	},
	"the project speaks of itself": {
		"workspace": {map[string]string{"README.md": "files are in /workspace/ and /home/work/x and a/work/b"}, 0},
		"path":      {map[string]string{"README.md": "see /wor" + "k/main"}, 1},
		"quoted":    {map[string]string{"internal/store/testdata/x": "x\n\"/wor" + "k/x\"\n"}, 1},
		"relative":  {map[string]string{"Makefile": "cat ../sha" + "red/x"}, 1},
		"built":     {map[string]string{"bin/x": "/wor" + "k/x", ".git/x": "/wor" + "k/x"}, 0},
		"work tree": {map[string]string{".git": "gitdir: /wor" + "k/x"}, 0},
		"ci":        {map[string]string{".ci/run": "cd /wor" + "k/x"}, 1},
	},
	"plain words": {
		"plain":          {map[string]string{"internal/store/a.go": src("store") + "// f saves the row.\nfunc f() {}\n"}, 0},
		"comment":        {map[string]string{"internal/store/a.go": src("store") + "// f is for whoever saves.\nfunc f() {}\n"}, 1},
		"over two lines": {map[string]string{"internal/store/a.go": src("store") + "// f says what\n// is wrong.\nfunc f() {}\n"}, 1},
		"string":         {map[string]string{"internal/store/a.go": src("store") + "const s = \"nobody holds it\"\n"}, 1},
		"name":           {map[string]string{"internal/store/a.go": src("store") + "func told() {}\n"}, 0},
		"below ceiling":  {map[string]string{"internal/store/a.go": src("store") + "// Told.\n", avoidedCeilings: "internal/store 1\n"}, 0},
		"above ceiling":  {map[string]string{"internal/store/x/a.go": src("x") + "// Told and told.\n", avoidedCeilings: "internal/store 1\n"}, 1},
	},
	"lines stay readable": {
		"200 columns": {map[string]string{"internal/store/a.go": src("store") + "const a = " + strings.Repeat("1", 190) + "\n"}, 0},
		"201 columns": {map[string]string{"internal/store/a.go": src("store") + "const a = " + strings.Repeat("1", 191) + "\n"}, 1},
		"text":        {map[string]string{"internal/store/a.go": src("store") + "const a = \"" + strings.Repeat("1", 300) + "\"\n"}, 0},
		"raw text":    {map[string]string{"internal/store/a.go": src("store") + "const a = `" + strings.Repeat("1", 300) + "\n`\n"}, 0},
		"in a test":   {map[string]string{"internal/store/a_test.go": src("store") + "const a = " + strings.Repeat("1", 300) + "\n"}, 0},
	},
	"types stay narrow": {
		"60 methods": {map[string]string{"internal/store/a.go": src("store") + methods("(db *DB)", 60)}, 0},
		"61 methods": {map[string]string{"internal/store/a.go": src("store") + methods("(db *DB)", 60), "internal/store/b.go": src("store") + "func (DB) last() {}\n"}, 1},
		"generic":    {map[string]string{"internal/store/a.go": src("store") + methods("(s set[K])", 61)}, 1},
		"in a test":  {map[string]string{"internal/store/a_test.go": src("store") + methods("(db *DB)", 61)}, 0},
	},
	"seeded bugs are patches": {
		"patch":  {map[string]string{"internal/testkit/seeded/bugs/store/a.patch": "+//go:build seeded_a\n"}, 0},
		"file":   {map[string]string{"internal/store/seeded_a.go": "package store\n"}, 1},
		"tag":    {map[string]string{"internal/store/a.go": "//go:build linux && seeded_a\n\npackage store\n"}, 1},
		"guard":  {map[string]string{"internal/store/a.go": "//go:build !seeded_a\n\npackage store\n"}, 1},
		"others": {map[string]string{"internal/store/a.go": "//go:build linux\n\npackage store\n\n// Not seeded_a.\n"}, 0},
	},
}

// methods returns the source of n methods.
func methods(receiver string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "func %s m%d() {}\n", receiver, i)
	}
	return b.String()
}

func TestEachRuleCanFail(t *testing.T) {
	for _, rule := range Rules {
		failed := false
		for name, c := range ruleCases[rule.Name] {
			got := rule.Check(tree(t, c.files))
			if len(got) != c.want {
				t.Errorf("%s, %s: %d findings, want %d: %q", rule.Name, name, len(got), c.want, got)
			}
			failed = failed || c.want > 0
		}
		if !failed {
			t.Errorf("%s: no case that breaks it", rule.Name)
		}
	}
	if len(ruleCases) != len(Rules) {
		t.Errorf("%d rules and cases for %d", len(Rules), len(ruleCases))
	}
}

func TestLayersAreOrderly(t *testing.T) {
	seen := map[string]bool{}
	for _, entries := range layers {
		for _, e := range entries {
			if seen[e] {
				t.Errorf("%s is in two layers", e)
			}
			seen[e] = true
		}
	}
	for from, list := range sideways {
		for _, to := range list {
			_, a := place(from)
			_, b := place(to)
			if !seen[from] || !seen[to] || a != b {
				t.Errorf("sideways %s to %s: want two entries of one layer", from, to)
			}
		}
	}
}

// broken is a tree whose files cannot be read.
type broken struct{ fstest.MapFS }

func (b broken) Open(name string) (fs.File, error) {
	if name == "." {
		return b.MapFS.Open(name)
	}
	return nil, errors.New("disk is gone")
}

func (b broken) ReadFile(string) ([]byte, error) { return nil, errors.New("disk is gone") }

func TestLoadReportsUnreadableTree(t *testing.T) {
	if _, err := Load(broken{fstest.MapFS{"a.go": {}}}); err == nil {
		t.Error("unreadable file: want an error")
	}
	if _, err := Load(os.DirFS(filepath.Join(t.TempDir(), "none"))); err == nil {
		t.Error("missing root: want an error")
	}
}
