package testkit

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProvesSetsAttribute(t *testing.T) {
	r := record(func(t testing.TB) { Proves(t, "S5", "O1") })
	if !slices.Equal(r.attrs, []string{"proves=S5 O1"}) || len(r.failures) != 0 {
		t.Fatalf("attrs %v, failures %v", r.attrs, r.failures)
	}
}

func TestProvesRefusesUnknownIDs(t *testing.T) {
	for _, ids := range [][]string{{"S19"}, {"O0"}, {"s5"}, {""}, {"S5", "Q1"}, {}} {
		r := record(func(t testing.TB) { Proves(t, ids...) })
		if len(r.failures) != 1 || len(r.attrs) != 0 {
			t.Errorf("Proves(%q): failures %v, attrs %v; want one failure and no claim", ids, r.failures, r.attrs)
		}
	}
}

func TestRequirementsAreDistinct(t *testing.T) {
	ids := Requirements()
	if len(ids) != 93 {
		t.Errorf("%d ids, want 93", len(ids))
	}
	slices.Sort(ids)
	if n := len(slices.Compact(ids)); n != 93 {
		t.Errorf("%d distinct ids, want 93", n)
	}
}

func TestSizePicksColumnByEnvironment(t *testing.T) {
	for _, c := range []struct {
		env  string
		want int
	}{{"", 1_000}, {"0", 1_000}, {"1", 10_000}} {
		t.Setenv("BERTH_TORTURE", c.env)
		if got := Size(t, "i1.owners"); got != c.want {
			t.Errorf("BERTH_TORTURE=%q: Size = %d, want %d", c.env, got, c.want)
		}
	}
}

func TestSizeRefusesUnknownName(t *testing.T) {
	r := record(func(t testing.TB) { Size(t, "no.such") })
	if len(r.failures) != 1 || !strings.Contains(r.failures[0], "sizes.go") {
		t.Errorf("failures %v, want one that names sizes.go", r.failures)
	}
}

func TestSizeTableIsOrderly(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sizes {
		if seen[s.name] || !strings.Contains(s.name, ".") {
			t.Errorf("%q: want a unique name with a dot", s.name)
		}
		seen[s.name] = true
		if s.short <= 0 || s.torture < s.short {
			t.Errorf("%q: short %d, torture %d", s.name, s.short, s.torture)
		}
	}
}

func TestEventuallyWaitsForSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		Eventually(t, time.Second, func() error {
			if calls++; calls < 5 {
				return errors.New("not yet")
			}
			return nil
		})
		if calls != 5 {
			t.Errorf("%d calls, want 5", calls)
		}
	})
}

func TestEventuallyGivesUpWithLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := record(func(t testing.TB) {
			Eventually(t, time.Second, func() error { return errors.New("door is shut") })
		})
		if len(r.failures) != 1 || !strings.Contains(r.failures[0], "door is shut") {
			t.Errorf("failures %v, want one with the last error", r.failures)
		}
		if took := time.Since(start); took < time.Second || took > 1100*time.Millisecond {
			t.Errorf("gave up after %v, want about 1s", took)
		}
	})
}

func TestGoldenComparesWithFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "out.txt")
	t.Setenv(UpdateGolden, "1")
	Golden(t, path, "one\ntwo\n")
	t.Setenv(UpdateGolden, "")
	Golden(t, path, []byte("one\ntwo\n"))

	r := record(func(t testing.TB) { Golden(t, path, "one\n2\n") })
	if len(r.failures) != 1 || !strings.Contains(r.failures[0], `line 2`) || !strings.Contains(r.failures[0], `"two"`) {
		t.Errorf("failures %v, want one that shows line 2", r.failures)
	}
	r = record(func(t testing.TB) { Golden(t, path, "one") })
	if len(r.failures) != 1 || !strings.Contains(r.failures[0], "(end of file)") {
		t.Errorf("failures %v, want one that says where got ends", r.failures)
	}
}

func TestGoldenFailsWithoutFile(t *testing.T) {
	t.Setenv(UpdateGolden, "")
	path := filepath.Join(t.TempDir(), "none")
	r := record(func(t testing.TB) { Golden(t, path, "x") })
	if len(r.failures) != 1 || !strings.Contains(r.failures[0], UpdateGolden) {
		t.Errorf("failures %v, want one that says how to write the file", r.failures)
	}
}

func TestGoldenSaysWhyItCannotWrite(t *testing.T) {
	t.Setenv(UpdateGolden, "1")
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(file, "below"), dir} {
		if r := record(func(t testing.TB) { Golden(t, path, "x") }); len(r.failures) != 1 {
			t.Errorf("Golden(%q): failures %v, want one", path, r.failures)
		}
	}
}
