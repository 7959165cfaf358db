package report

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Row is one requirement of docs/requirements.md.
type Row struct {
	ID, Text, Status string
	Tests            []string // names in the form package.TestName
	line             int
}

// Table is the parsed docs/requirements.md: its rows and the text around them.
type Table struct {
	Rows  []Row
	lines []string
}

var (
	rowID      = regexp.MustCompile(`^[A-Z][0-9]+$`)
	rowStatus  = []string{"done", "partly", "open"}
	rowColumns = 4
)

// ReadTable parses the rows of requirements in a Markdown text. A row has the columns id, requirement, status and tests.
func ReadTable(text string) (*Table, error) {
	t := &Table{lines: strings.Split(text, "\n")}
	for n, line := range t.lines {
		cells := splitRow(line)
		if len(cells) == 0 || !rowID.MatchString(cells[0]) {
			continue
		}
		if len(cells) != rowColumns {
			return nil, fmt.Errorf("line %d: %s has %d columns, want id, requirement, status, tests", n+1, cells[0], len(cells))
		}
		if !slices.Contains(rowStatus, cells[2]) {
			return nil, fmt.Errorf("line %d: %s has the status %q, want one of %v", n+1, cells[0], cells[2], rowStatus)
		}
		t.Rows = append(t.Rows, Row{ID: cells[0], Text: cells[1], Status: cells[2], Tests: splitTests(cells[3]), line: n})
	}
	if len(t.Rows) == 0 {
		return nil, fmt.Errorf("no requirement rows")
	}
	return t, nil
}

func splitRow(line string) []string {
	line = strings.TrimSpace(line)
	if len(line) < 2 || line[0] != '|' || line[len(line)-1] != '|' {
		return nil
	}
	cells := strings.Split(line[1:len(line)-1], "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

func splitTests(cell string) []string {
	return strings.FieldsFunc(cell, func(r rune) bool { return r == ',' || r == ' ' || r == '`' })
}

// String returns the Markdown text with the current rows.
func (t *Table) String() string {
	lines := slices.Clone(t.lines)
	for _, r := range t.Rows {
		lines[r.line] = strings.TrimSpace(fmt.Sprintf("| %s | %s | %s | %s", r.ID, r.Text, r.Status, strings.Join(r.Tests, ", "))) + " |"
	}
	return strings.Join(lines, "\n")
}

// update fills the tests column with the tests that prove each row. It returns the number of rows with such tests.
func (t *Table) update(res *results) (proven int) {
	for i := range t.Rows {
		t.Rows[i].Tests = names(res.proofs(t.Rows[i].ID), res.holds)
		if len(t.Rows[i].Tests) > 0 {
			proven++
		}
	}
	return proven
}

// names returns the test functions of the tests for which keep returns true, each once.
func names(tests []*test, keep func(*test) bool) []string {
	var list []string
	for _, t := range tests {
		if keep(t) {
			list = append(list, Short(t.pkg)+"."+t.top())
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// check compares the rows with the results. It returns a problem for each wrong row, and in notes the ids of rows
// that lack tests. Rows that cannot be checked because a package was cut off are reported together as one problem.
func (t *Table) check(res *results) (problems, notes []string) {
	cut := res.cutOff()
	var unjudged []string
	for _, r := range t.Rows {
		claim := res.proofs(r.ID)
		proven := names(claim, res.holds)
		stale := missing(r.Tests, names(claim, anyTest))
		unproven := r.Status == "done" && len(proven) == 0
		if (unproven || len(stale) > 0) && anyOf(cut, r.Tests, names(claim, anyTest)) {
			unjudged = append(unjudged, r.ID)
			continue
		}
		if unproven {
			problems = append(problems, fmt.Sprintf("requirement %s is marked done, but %s", r.ID, lack(claim)))
		}
		if len(stale) > 0 {
			problems = append(problems, fmt.Sprintf("requirement %s lists %s, which did not claim it: run make requirements", r.ID, strings.Join(stale, ", ")))
		}
		if fresh := missing(proven, r.Tests); len(fresh) > 0 {
			notes = append(notes, r.ID)
		}
	}
	if len(unjudged) > 0 {
		problems = append(problems, fmt.Sprintf("%d requirements were not checked, because not all tests of their packages ran: %s", len(unjudged), strings.Join(unjudged, " ")))
	}
	return problems, notes
}

// anyOf reports whether one of the tests in the lists belongs to one of the packages.
func anyOf(packages map[string]bool, lists ...[]string) bool {
	return slices.ContainsFunc(slices.Concat(lists...), func(test string) bool {
		end := strings.LastIndex(test, ".")
		return end >= 0 && packages[test[:end]]
	})
}

func anyTest(*test) bool { return true }

func lack(claim []*test) string {
	if len(claim) == 0 {
		return "no test that ran says testkit.Proves for it"
	}
	return fmt.Sprintf("none of its tests passed: %s", strings.Join(names(claim, anyTest), ", "))
}

// missing returns the items of list that are not in of.
func missing(list, of []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(of, s) {
			out = append(out, s)
		}
	}
	return out
}
