package seeded

import (
	"fmt"
	"go/build/constraint"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Check compares the list with the tree below fsys and with the files of a default build (paths
// relative to the tree). It returns a sentence for everything that is wrong.
func Check(bugs []Bug, fsys fs.FS, defaultBuild []string) ([]string, error) {
	uses, err := findTags(fsys)
	if err != nil {
		return nil, err
	}
	var wrong []string
	planted := map[string]bool{} // tags that some file needs to be built
	for _, u := range uses {
		built := slices.Contains(defaultBuild, u.file)
		switch {
		case len(u.needs) == 0 && len(u.avoids) == 0 && built:
			wrong = append(wrong, fmt.Sprintf("%s is in every build: it has no //go:build seeded_ line", u.file))
		case len(u.needs) > 0 && built:
			wrong = append(wrong, fmt.Sprintf("%s is in a release build although it names %v", u.file, u.needs))
		}
		for _, tag := range append(u.needs, u.avoids...) {
			if !listed(bugs, tag) {
				wrong = append(wrong, fmt.Sprintf("%s uses %s, which internal/testkit/seeded.txt does not list", u.file, tag))
			}
		}
		for _, tag := range u.needs {
			planted[tag] = true
		}
	}
	for _, bug := range bugs {
		if !planted[bug.Tag] {
			wrong = append(wrong, fmt.Sprintf("internal/testkit/seeded.txt lists %s, but no file is built with it", bug.Tag))
		}
	}
	return wrong, nil
}

func listed(bugs []Bug, tag string) bool {
	return slices.ContainsFunc(bugs, func(b Bug) bool { return b.Tag == tag })
}

// use is a Go file that has to do with seeded bugs, by its name or its build line.
type use struct {
	file          string
	needs, avoids []string // tags that put the file into a build, or take it out
}

func findTags(fsys fs.FS) ([]use, error) {
	var uses []use
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		u := use{file: name}
		u.read(string(text))
		if len(u.needs)+len(u.avoids) > 0 || strings.HasPrefix(path.Base(name), "seeded_") {
			uses = append(uses, u)
		}
		return nil
	})
	return uses, err
}

// read finds the build line, which stands before the package clause.
func (u *use) read(text string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "package ") {
			return
		}
		if expr, err := constraint.Parse(strings.TrimSpace(line)); err == nil {
			u.collect(expr, false)
		}
	}
}

func (u *use) collect(expr constraint.Expr, negated bool) {
	switch e := expr.(type) {
	case *constraint.AndExpr:
		u.collect(e.X, negated)
		u.collect(e.Y, negated)
	case *constraint.OrExpr:
		u.collect(e.X, negated)
		u.collect(e.Y, negated)
	case *constraint.NotExpr:
		u.collect(e.X, !negated)
	case *constraint.TagExpr:
		switch {
		case !strings.HasPrefix(e.Tag, "seeded_"):
		case negated:
			u.avoids = append(u.avoids, e.Tag)
		default:
			u.needs = append(u.needs, e.Tag)
		}
	}
}
