package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Rule is a rule about the whole module. Check returns a sentence for every place that breaks it.
type Rule struct {
	Name  string
	Check func(*Module) []string
}

// Rules lists all rules about the module's structure. The package's test applies them.
var Rules = []Rule{
	{"packages have a layer", packagesHaveALayer},
	{"imports go down", importsGoDown},
	{"core packages are self-contained", corePackagesAreSelfContained},
	{"only app imports implementations", onlyAppImportsImplementations},
	{"test packages stay in tests", testPackagesStayInTests},
	{"one package doc each", onePackageDocEach},
	{"exported names are documented", exportedNamesAreDocumented},
	{"main stays small", mainStaysSmall},
	{"tests do not sleep", testsDoNotSleep},
	{"files stay readable", filesStayReadable},
	{"lines stay readable", linesStayReadable},
	{"types stay narrow", typesStayNarrow},
	{"package names mean something", packageNamesMeanSomething},
	{"comments promise nothing", commentsPromiseNothing},
	{"docs name real packages", docsNameRealPackages},
	{"the project speaks of itself", projectSpeaksOfItself},
	{"seeded bugs are patches", seededBugsArePatches},
	{"plain words", plainWords},
}

const (
	maxMainLines = 40
	maxFileLines = 600
	maxColumns   = 200 // of code: texts between quotes do not count
	maxMethods   = 60
)

func mainStaysSmall(m *Module) []string {
	const main = "cmd/berth/main.go"
	if n := strings.Count(m.Texts[main], "\n"); n > maxMainLines {
		return []string{fmt.Sprintf("%s has %d lines, at most %d: move the rest to internal/app or internal/cli", main, n, maxMainLines)}
	}
	return nil
}

func filesStayReadable(m *Module) (found []string) {
	for _, p := range m.Packages {
		for _, f := range p.Files {
			if f.Lines > maxFileLines && !f.Generated {
				found = append(found, fmt.Sprintf("%s has %d lines, at most %d: split it by idea", f.Path, f.Lines, maxFileLines))
			}
		}
	}
	return found
}

// quoted matches a text between quotes: it is as long as it needs to be.
var quoted = regexp.MustCompile("\"(\\\\.|[^\"\\\\])*\"|`[^`]*`")

func linesStayReadable(m *Module) (found []string) {
	for _, p := range m.Packages {
		for _, f := range p.Files {
			if f.Test || f.Generated {
				continue
			}
			inText := longTexts(f)
			for n, line := range strings.Split(m.Texts[f.Path], "\n") {
				code := strings.ReplaceAll(quoted.ReplaceAllString(line, `""`), "\t", "    ")
				if columns := utf8.RuneCountInString(code); columns > maxColumns && !inText[n+1] {
					found = append(found, fmt.Sprintf("%s:%d: %d columns of code, at most %d", f.Path, n+1, columns, maxColumns))
				}
			}
		}
	}
	return found
}

// longTexts returns the lines with a part of a text of several lines.
func longTexts(f *File) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if text, ok := n.(*ast.BasicLit); ok && strings.Contains(text.Value, "\n") {
			for line := f.line(text.Pos()); line <= f.line(text.End()); line++ {
				lines[line] = true
			}
		}
		return true
	})
	return lines
}

// typesStayNarrow counts the methods of each type. A type with many methods is about several things.
func typesStayNarrow(m *Module) (found []string) {
	for _, p := range m.Packages {
		methods := map[string]int{}
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			for _, d := range f.AST.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
					methods[receiver(fn)]++
				}
			}
		}
		for _, name := range sortedKeys(methods) {
			if methods[name] > maxMethods {
				found = append(found, fmt.Sprintf("%s.%s has %d methods, at most %d: move those of one idea to a type of their own", p.Path, name, methods[name], maxMethods))
			}
		}
	}
	return found
}

// receiver returns the name of the type that a method belongs to.
func receiver(fn *ast.FuncDecl) string {
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	switch of := t.(type) {
	case *ast.IndexExpr:
		t = of.X
	case *ast.IndexListExpr:
		t = of.X
	}
	if name, ok := t.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// hollowNames matches package names that do not name the purpose of a package.
var hollowNames = regexp.MustCompile(`^(utils?|common|models|services|helpers?|managers?)$`)

func packageNamesMeanSomething(m *Module) (found []string) {
	for _, p := range m.Packages {
		for _, name := range append(strings.Split(p.Path, "/"), p.Name) {
			if hollowNames.MatchString(name) {
				found = append(found, fmt.Sprintf("%s: %q says nothing; name the package after the one thing it does", p.Path, name))
				break
			}
		}
	}
	return found
}

var promise = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)

func commentsPromiseNothing(m *Module) (found []string) {
	for _, p := range m.Packages {
		for _, f := range p.Files {
			for _, group := range f.AST.Comments {
				if word := promise.FindString(group.Text()); word != "" {
					found = append(found, fmt.Sprintf("%s:%d: do it or leave it out, without %s", f.Path, f.line(group.Pos()), word))
				}
			}
		}
	}
	return found
}

var docPackage = regexp.MustCompile("`((?:internal|cmd)/[a-z0-9/]+)`")

func docsNameRealPackages(m *Module) (found []string) {
	for _, name := range sortedKeys(m.Texts) {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, match := range docPackage.FindAllStringSubmatch(m.Texts[name], -1) {
			if _, level := place(match[1]); level < 0 {
				found = append(found, fmt.Sprintf("%s: no package %s in the table of layers", name, match[1]))
			}
		}
	}
	return found
}

// foreign matches paths that exist only on the machines where Berth was written. The patterns are split so that
// this file does not match them.
var foreign = []*regexp.Regexp{
	regexp.MustCompile(`(^|[\s"'(=:` + "`" + `])/wor` + `k/`),
	regexp.MustCompile(`\.\./sha` + `red\b`),
	regexp.MustCompile(`/tmp/bri` + `ef\b`),
}

func projectSpeaksOfItself(m *Module) (found []string) {
	for _, name := range sortedKeys(m.Texts) {
		for n, line := range strings.Split(m.Texts[name], "\n") {
			for _, re := range foreign {
				if re.MatchString(line) {
					found = append(found, fmt.Sprintf("%s:%d: mentions a path outside the project", name, n+1))
				}
			}
		}
	}
	return found
}

// bugTag matches a build constraint with the tag of a seeded bug.
var bugTag = regexp.MustCompile(`(?m)^//\s*(go:build|\+build).*\bseeded_`)

func seededBugsArePatches(m *Module) (found []string) {
	for _, name := range sortedKeys(m.Texts) {
		if path.Ext(name) == ".go" && (strings.HasPrefix(path.Base(name), "seeded_") || bugTag.MatchString(m.Texts[name])) {
			found = append(found, fmt.Sprintf("%s exists for a seeded bug: make it a patch in internal/testkit/seeded/bugs", name))
		}
	}
	return found
}
