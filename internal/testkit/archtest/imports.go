package archtest

import (
	"fmt"
	"slices"
	"strings"
)

func packagesHaveALayer(m *Module) (found []string) {
	for _, p := range m.Packages {
		if _, level := place(p.Path); level < 0 && len(p.sources()) > 0 {
			found = append(found, fmt.Sprintf("%s is in no layer: add it to the table in internal/testkit/archtest/layers.go", p.Path))
		}
	}
	return found
}

// eachImport calls visit for every import of one of the module's packages by another. It ignores test files,
// which may import any package.
func eachImport(m *Module, visit func(from *Package, f *File, to string)) {
	for _, p := range m.Packages {
		for _, f := range p.sources() {
			for _, path := range f.imports() {
				if to, ok := own(path); ok && to != p.Path {
					visit(p, f, to)
				}
			}
		}
	}
}

func importsGoDown(m *Module) (found []string) {
	eachImport(m, func(from *Package, f *File, to string) {
		fromEntry, fromLevel := place(from.Path)
		toEntry, toLevel := place(to)
		switch {
		case fromLevel < 0 || toLevel < 0: // packagesHaveALayer reports these
		case toLevel < fromLevel:
		case isSuite(from.Path) && within(to, "internal/testkit"): // a suite is test code
		case toLevel == fromLevel && allowedInLayer(from.Path, fromEntry, to, toEntry):
		default:
			found = append(found, fmt.Sprintf("%s (layer %d) imports %s (layer %d)", f.Path, fromLevel, to, toLevel))
		}
	})
	return found
}

// allowedInLayer reports whether an import within one layer is allowed. A package may import the
// package of its own entry in the table, packages in folders below its own, and those that the tables sideways and
// everywhere allow.
func allowedInLayer(from, fromEntry, to, toEntry string) bool {
	return to == fromEntry || within(to, from) || to == "api" ||
		slices.Contains(sideways[fromEntry], toEntry) || slices.Contains(everywhere, toEntry)
}

func corePackagesAreSelfContained(m *Module) (found []string) {
	for _, p := range m.Packages {
		allowed, core := selfContained[p.Path]
		if !core {
			continue
		}
		for _, f := range p.sources() {
			for _, path := range f.imports() {
				name := path
				if to, ours := own(path); ours {
					name = to
				}
				if !isStandard(path) && !slices.Contains(allowed, name) {
					found = append(found, fmt.Sprintf("%s imports %s; %s imports the standard library and %v only", f.Path, path, p.Path, allowed))
				}
			}
		}
	}
	return found
}

// isStandard reports whether the path belongs to the standard library: its first element has no dot.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func onlyAppImportsImplementations(m *Module) (found []string) {
	eachImport(m, func(from *Package, f *File, to string) {
		if !isImplementation(to) || withinAny(from.Path, wirers) || isSuite(from.Path) || sameFamily(from.Path, to) {
			return
		}
		found = append(found, fmt.Sprintf("%s imports %s: only internal/app puts implementations together", f.Path, to))
	})
	return found
}

// sameFamily reports whether both packages belong to one implementation: one is below the other.
func sameFamily(from, to string) bool {
	return isImplementation(from) && (within(to, from) || within(from, to))
}

func testPackagesStayInTests(m *Module) (found []string) {
	eachImport(m, func(from *Package, f *File, to string) {
		forTests := within(to, "internal/testkit") || isSuite(to)
		if forTests && !within(from.Path, "internal/testkit") && !within(from.Path, "bench") && !isSuite(from.Path) {
			found = append(found, fmt.Sprintf("%s imports %s, which is for tests", f.Path, to))
		}
	})
	return found
}
