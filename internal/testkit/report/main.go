package report

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// options are the command's flags.
type options struct {
	requirements, skips, save string
	update                    bool
	floor                     float64
	slowest                   int
	again                     int
	race                      string
	packages                  string
	files                     []string
}

// Main runs the command testreport and returns its exit code: 0 if all tests and rules passed, 1 if a test or a
// rule failed or no test ran, 2 if the command itself failed.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	opts, err := parseFlags(args, stderr)
	if err != nil {
		return 2
	}
	ok, err := run(opts, stdin, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "testreport:", err)
		return 2
	}
	if !ok {
		return 1
	}
	return 0
}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("testreport", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprintf(stderr, "usage: go test -json ./... | testreport [flags] [file of events ...]\n")
		f.PrintDefaults()
	}
	f.StringVar(&o.requirements, "requirements", "", "check the rows of this `file` (docs/requirements.md) against the tests that ran")
	f.BoolVar(&o.update, "update", false, "write the tests column of the requirements file")
	f.StringVar(&o.skips, "skips", "", "allow the skips that this `file` names, and no other")
	f.StringVar(&o.save, "save", "", "keep a copy of the events in this `file`")
	f.Float64Var(&o.floor, "min-coverage", 0, "fail when a measured package covers fewer `percent` of its statements")
	f.IntVar(&o.again, "again", 0, "run failed tests again, alone, if at most this `many` failed")
	f.StringVar(&o.race, "race", "", "run tests of packages that match this `pattern` again with the race detector")
	f.StringVar(&o.packages, "packages", "", "fail when one of these `paths`, separated by space, has no result")
	f.IntVar(&o.slowest, "slowest", 10, "how many of the slowest tests to list")
	err := f.Parse(args)
	o.files = f.Args()
	return o, err
}

func run(o options, stdin io.Reader, stdout io.Writer) (bool, error) {
	allowed, err := loadSkips(o.skips)
	if err != nil {
		return false, err
	}
	race, err := regexp.Compile(cmp.Or(o.race, "^$"))
	if err != nil {
		return false, err
	}
	in, done, err := openInput(o, stdin)
	if err != nil {
		return false, err
	}
	res, p := newResults(), &printer{out: stdout}
	if o.update {
		p.out = io.Discard
	}
	err = Events(in, func(e Event) { p.event(res, e) }, func(line string) { fmt.Fprintln(p.out, line) })
	if cerr := done(); err == nil {
		err = cerr
	}
	if err != nil {
		return false, fmt.Errorf("read events: %w", err)
	}
	if o.update {
		return true, updateRequirements(o.requirements, res, stdout)
	}
	p.buildOutput(res)
	unstable, err := p.again(repeater{limit: o.again, race: race, run: goTest}, res)
	if err != nil {
		return false, err
	}
	problems, err := p.requirements(o, res)
	if err != nil {
		return false, err
	}
	problems = append(problems, res.lacking(strings.Fields(o.packages))...)
	problems = append(problems, res.refusedSkips(allowed)...)
	problems = append(problems, res.thinCoverage(o.floor)...)
	p.list("unstable: failed once, then passed alone; each is a bug of the test or of Berth", unstable)
	return p.finish(res, problems, o.slowest), nil
}

func loadSkips(path string) ([]allowance, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read allowed skips: %w", err)
	}
	allowed, err := parseSkips(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return allowed, nil
}

// openInput returns a reader of the events and a function to call after the last event.
func openInput(o options, stdin io.Reader) (io.Reader, func() error, error) {
	in := stdin
	if len(o.files) > 0 {
		var all []io.Reader
		for _, path := range o.files {
			f, err := os.Open(path)
			if err != nil {
				return nil, nil, err
			}
			all = append(all, f)
		}
		in = io.MultiReader(all...)
	}
	if o.save == "" {
		return in, func() error { return nil }, nil
	}
	copy, err := os.Create(o.save)
	if err != nil {
		return nil, nil, err
	}
	return io.TeeReader(in, copy), copy.Close, nil
}

func (p *printer) event(res *results, e Event) {
	t, pk := res.add(e)
	if t != nil {
		p.testEnded(t)
	}
	if pk != nil {
		p.packageEnded(res, pk)
	}
}

// requirements checks the table of requirements against the results and returns the problems.
func (p *printer) requirements(o options, res *results) ([]string, error) {
	if o.requirements == "" {
		return nil, nil
	}
	table, err := loadTable(o.requirements)
	if err != nil {
		return nil, err
	}
	problems, notes := table.check(res)
	if len(notes) > 0 {
		fmt.Fprintf(p.out, "\nthe tests column of %s lacks tests for %v: run make requirements\n", o.requirements, notes)
	}
	return problems, nil
}

func loadTable(path string) (*Table, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read requirements: %w", err)
	}
	table, err := ReadTable(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return table, nil
}

// updateRequirements writes the tests column.
func updateRequirements(path string, res *results, stdout io.Writer) error {
	if len(res.tests) == 0 {
		return errors.New("update requirements: the events hold no test")
	}
	table, err := loadTable(path)
	if err != nil {
		return err
	}
	proven := table.update(res)
	if err := os.WriteFile(path, []byte(table.String()), 0o644); err != nil {
		return fmt.Errorf("write requirements: %w", err)
	}
	fmt.Fprintf(stdout, "%s: %d rows, %d with tests\n", path, len(table.Rows), proven)
	return nil
}

// finish prints the end of the report. It reports whether there was no failure and no problem.
func (p *printer) finish(res *results, problems []string, slowest int) bool {
	bad := res.timeouts()
	count := map[status]int{}
	failing := map[string]bool{} // packages with a failed test
	for _, t := range res.sorted() {
		switch covered := res.packages[t.pkg].timeout.covers(t.name); {
		case t.status == running:
			t.status = failed
			if !covered {
				bad = append(bad, t.String()+" did not finish")
			}
		case t.status == failed && !covered:
			bad = append(bad, t.String())
		}
		failing[t.pkg] = failing[t.pkg] || t.status == failed
		count[t.status]++
	}
	for _, pk := range res.brokenPackages(failing) {
		bad = append(bad, pk)
		count[failed]++
	}
	if len(res.tests) == 0 {
		problems = append(problems, "no test ran")
	}
	p.slowest(res, slowest)
	p.list("failed", bad)
	p.list("problems", problems)
	fmt.Fprintf(p.out, "\n%d passed, %d failed, %d skipped\n", count[passed], count[failed], count[skipped])
	return len(bad) == 0 && len(problems) == 0
}
