package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// avoidedWords matches words that do not belong in comments, errors, help and other strings, because they hide the
// thing that a sentence is about. "What is" is avoided as a noun ("says what is wrong").
var avoidedWords = regexp.MustCompile(`(?i)\b(whoever|whomever|nobody|somebody|anybody|everybody|meanwhile|told|what is|of its own)\b`)

// avoidedCeilings is the file with the allowed number of avoided words of each package. The numbers only fall:
// with BERTH_UPDATE_GOLDEN=1 TestPlainWords lowers them to the present counts and never raises one.
const avoidedCeilings = "internal/testkit/archtest/avoided_words.txt"

// plainWords reports packages with more avoided words than the file allows. A package that the file does not list may
// have none.
func plainWords(m *Module) (found []string) {
	ceilings := parseCeilings(m.Texts[avoidedCeilings])
	places := avoidedPlaces(m)
	for _, entry := range sortedKeys(places) {
		if most := ceilings[entry]; len(places[entry]) > most {
			found = append(found, fmt.Sprintf("%s has %d avoided words, at most %d: name the thing instead; the last are at %s",
				entry, len(places[entry]), most, strings.Join(last(places[entry], 20), ", ")))
		}
	}
	return found
}

func last(list []string, n int) []string { return list[max(0, len(list)-n):] }

// avoidedPlaces returns the places of avoided words in comments and strings, by the package's entry in layers.
func avoidedPlaces(m *Module) map[string][]string {
	places := map[string][]string{}
	for _, p := range m.Packages {
		entry, level := place(p.Path)
		if level < 0 {
			entry = p.Path
		}
		if within(p.Path, "internal/testkit/archtest") {
			continue // archtest's patterns and tests contain the avoided words
		}
		for _, f := range p.Files {
			places[entry] = append(places[entry], f.avoided()...)
		}
		if len(places[entry]) == 0 {
			delete(places, entry)
		}
	}
	return places
}

// avoided lists the avoided words of a file as "path:line word".
func (f *File) avoided() (found []string) {
	add := func(pos token.Pos, text string) {
		text = strings.Join(strings.Fields(text), " ")
		for _, word := range avoidedWords.FindAllString(text, -1) {
			found = append(found, fmt.Sprintf("%s:%d %q", f.Path, f.line(pos), word))
		}
	}
	for _, group := range f.AST.Comments {
		add(group.Pos(), group.Text())
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				add(lit.Pos(), text)
			}
		}
		return true
	})
	return found
}

// parseCeilings parses the file of allowed counts. Each line has an entry of layers and a number.
func parseCeilings(text string) map[string]int {
	ceilings := map[string]int{}
	for line := range strings.Lines(text) {
		if entry, number, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			ceilings[entry], _ = strconv.Atoi(strings.TrimSpace(number))
		}
	}
	return ceilings
}

// lowered returns the text of the file with each allowed count reduced to the present count, if that is lower.
func lowered(text string, places map[string][]string) string {
	ceilings := parseCeilings(text)
	var lines []string
	for _, entry := range sortedKeys(ceilings) {
		if n := min(ceilings[entry], len(places[entry])); n > 0 {
			lines = append(lines, fmt.Sprintf("%s %d\n", entry, n))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
