package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// Lines before and after the picture of the layers in docs/ARCHITECTURE.md.
const (
	pictureStart = "<!-- layers: generated from internal/testkit/archtest/layers.go -->\n"
	pictureEnd   = "<!-- end of layers -->\n"
)

// Picture draws the layers, from the top down, with the packages that exist.
func Picture(m *Module) string {
	var b strings.Builder
	b.WriteString("```\n")
	for level := len(layers) - 1; level >= 0; level-- {
		title := fmt.Sprintf("L%d  %s", level, layerNames[level])
		for _, line := range layerLines(m, level) {
			fmt.Fprintf(&b, "%-22s %s\n", title, line)
			title = ""
		}
	}
	b.WriteString("```\n")
	return b.String()
}

// layerLines returns the lines for one layer: a line for each seam with its implementations, then the other packages.
func layerLines(m *Module, level int) (lines []string) {
	var plain []string
	for _, entry := range layers[level] {
		if !m.has(entry) {
			continue // the entry has no package yet
		}
		if entry == "." {
			plain = append(plain, "berth (the public package)")
		} else if slices.Contains(seams, entry) {
			lines = append(lines, fmt.Sprintf("%-20s ← %s", entry, strings.Join(m.implementations(entry), ", ")))
		} else {
			plain = append(plain, strings.TrimPrefix(entry, "internal/"))
		}
	}
	slices.Sort(plain)
	return append(lines, wrap(plain, 88)...)
}

// has reports whether there is a package at the entry or below it.
func (m *Module) has(entry string) bool {
	return slices.ContainsFunc(m.Packages, func(p *Package) bool { return within(p.Path, entry) })
}

// implementations returns the names of the packages below a seam, without conformance suites.
func (m *Module) implementations(seam string) (names []string) {
	for _, p := range m.Packages {
		if name, below := strings.CutPrefix(p.Path, seam+"/"); below && !isSuite(p.Path) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// wrap joins words with commas into lines of at most width columns.
func wrap(words []string, width int) (lines []string) {
	line := ""
	for i, w := range words {
		if i < len(words)-1 {
			w += ","
		}
		switch {
		case line == "":
			line = w
		case len(line)+1+len(w) > width:
			lines, line = append(lines, line), w
		default:
			line += " " + w
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// withPicture returns the document with the picture between pictureStart and pictureEnd. The result ok is false if
// the document lacks one of them.
func withPicture(doc, picture string) (text string, ok bool) {
	before, rest, ok := strings.Cut(doc, pictureStart)
	if !ok {
		return doc, false
	}
	_, after, ok := strings.Cut(rest, pictureEnd)
	return before + pictureStart + picture + pictureEnd + after, ok
}
