package blobtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/blob/blobtest"
)

// brokenEnv tells another process of this test binary which breakage to run the suite on.
const brokenEnv = "BERTH_BLOBTEST_BREAKAGE"

const nothingBroken = "nothing"

// breakages are what may be wrong with a store, and the parts of the suite that must notice it.
var breakages = map[string]struct {
	parts string
	bend  func(*memory)
}{
	"objects lose a byte": {"WhatIsPutIsGot Storm", func(m *memory) {
		m.show = func(m *memory, key string, o object) {
			o.text = o.text[:max(len(o.text)-1, 0)]
			m.objects[key] = o
		}
	}},
	"ranges end late": {"Ranges Storm", func(m *memory) {
		m.part = func(text []byte, o blob.GetOptions) ([]byte, error) {
			if o.Length > 0 {
				o.Length++
			}
			return partOf(text, o)
		}
	}},
	"missing is empty":    {"MissingObjects Storm", func(m *memory) { m.missing = nil }},
	"missing is an error": {"MissingObjects", func(m *memory) { m.missing = errors.New("something broke") }},
	"tags come back":      {"Overwrite", func(m *memory) { m.tag = func(n int) blob.Tag { return blob.Tag(fmt.Sprintf(`"%d"`, n%3)) } }},
	"absent is ignored": {"Conditions Race Probe Storm", func(m *memory) {
		holds := m.holds
		m.holds = func(was object, there bool, o blob.PutOptions, size int64) bool {
			o.IfAbsent = false
			return holds(was, there, o, size)
		}
	}},
	"match is ignored": {"Conditions Race Probe Storm", func(m *memory) {
		holds := m.holds
		m.holds = func(was object, there bool, o blob.PutOptions, size int64) bool {
			o.IfMatch = ""
			return holds(was, there, o, size)
		}
	}},
	"large ones ignore conditions": {"LargeConditions", func(m *memory) {
		holds := m.holds
		m.holds = func(was object, there bool, o blob.PutOptions, size int64) bool {
			return size > 16<<20 || holds(was, there, o, size)
		}
	}},
	"parts change places": {"LargeObjects Copy", func(m *memory) {
		m.read = func(r io.Reader, size int64) ([]byte, error) {
			text, err := readExactly(r, size)
			if size > 16<<20 {
				text[0], text[8<<20] = text[8<<20], text[0]+1
			}
			return text, err
		}
	}},
	"short is enough": {"ReadersThatFail", func(m *memory) {
		m.read = func(r io.Reader, size int64) ([]byte, error) { return io.ReadAll(io.LimitReader(r, size)) }
	}},
	"all is read": {"ReadersThatFail", func(m *memory) {
		m.read = func(r io.Reader, size int64) ([]byte, error) {
			text, err := readExactly(r, size)
			_, _ = io.Copy(io.Discard, r)
			return text, err
		}
	}},
	"copies are empty": {"Copy Keys Storm", func(m *memory) {
		m.paste = func(o object) object { o.text = nil; return o }
	}},
	"case does not matter": {"Keys", func(m *memory) { m.name = strings.ToLower }},
	"any key":              {"BadKeys", func(m *memory) { m.check = func(string) error { return nil } }},
	"lists backwards":      {"ListOrder ListFolders ListPages ListStops", func(m *memory) { m.list = func(e []blob.Entry) []blob.Entry { slices.Reverse(e); return e } }},
	"lists one page":       {"ListPages", func(m *memory) { m.list = func(e []blob.Entry) []blob.Entry { return e[:min(len(e), 1000)] } }},
	"lists nothing":        {"Storm Keys", func(m *memory) { m.list = func([]blob.Entry) []blob.Entry { return nil } }},
	"deletes one page":     {"DeleteMany", func(m *memory) { m.gone = func(keys []string) []string { return keys[:min(len(keys), 1000)] } }},
	"deletes nothing":      {"MissingObjects ListFolders Storm", func(m *memory) { m.gone = func([]string) []string { return nil } }},
	"no end":               {"EndedContext", func(m *memory) { m.alive = func(context.Context) error { return nil } }},
	"wrong words":          {"BadArguments", func(m *memory) { m.alive = func(context.Context) error { return blob.ErrNotFound } }},
	"half is visible": {"ReadersSeeWholeObjects", func(m *memory) {
		m.show = func(m *memory, key string, o object) {
			half := o
			half.text = o.text[:len(o.text)/2]
			m.objects[key] = half
			m.mu.Unlock()
			for range 1000 {
				_, _ = m.Get(context.Background(), key, blob.GetOptions{})
			}
			m.mu.Lock()
			m.objects[key] = o
		}
	}},
	"some writes are lost": {"Counter Overwrite Storm", func(m *memory) {
		m.show = func(m *memory, key string, o object) {
			if m.writes%3 != 0 {
				m.objects[key] = o
			}
		}
	}},
	"no address": {"Address", func(m *memory) { m.address = "" }},
	"now and then another answer": {"Storm", func(m *memory) {
		m.part = func(text []byte, o blob.GetOptions) ([]byte, error) {
			if rand.IntN(2) == 0 && len(text) > 0 {
				text = append([]byte{text[0] + 1}, text[1:]...)
				o.Offset = 0
			}
			return partOf(text, o)
		}
	}},
}

// TestSuiteCatchesBrokenStores runs the suite on stores that are broken, in processes of their own.
func TestSuiteCatchesBrokenStores(t *testing.T) {
	if name := os.Getenv(brokenEnv); name != "" {
		runBroken(t, name)
		return
	}
	whole, err := suiteOn(t, nothingBroken, ".*")
	if err != nil {
		t.Fatalf("the suite fails on a store that is not broken: %v\n%s", err, whole)
	}
	caught := map[string]bool{}
	for _, b := range breakages {
		for part := range strings.FieldsSeq(b.parts) {
			caught[part] = true
		}
	}
	for _, m := range regexp.MustCompile(`--- PASS: \w+/(\w+)`).FindAllStringSubmatch(whole, -1) {
		if !caught[m[1]] {
			t.Errorf("no breakage is caught by %s", m[1])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(breakages)) {
		for part := range strings.FieldsSeq(breakages[name].parts) {
			if out, err := suiteOn(t, name, part); err == nil || !strings.Contains(out, "--- FAIL: TestSuiteCatchesBrokenStores/"+part) {
				t.Errorf("%s: %s does not notice\n%s", name, part, out)
			}
		}
	}
}

func runBroken(t *testing.T, name string) {
	bent := func() blob.Store {
		m := newMemory()
		if name != nothingBroken {
			breakages[name].bend(m)
		}
		return m
	}
	blobtest.Run(t, blobtest.Harness{New: func(*testing.T) blob.Store { return bent() }})
	t.Run("Storm", func(t *testing.T) { blobtest.Storm(t, bent()) })
}

func suiteOn(t *testing.T, name, part string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestSuiteCatchesBrokenStores$/^"+part+"$")
	cmd.Env = append(os.Environ(), brokenEnv+"="+name)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestSuite runs it in this process, on a store that is rough and flat and fails, too.
func TestSuite(t *testing.T) {
	blobtest.Run(t, blobtest.Harness{Flat: true, New: func(*testing.T) blob.Store { return newMemory() }})
	blobtest.Run(t, blobtest.Harness{Rough: true, New: func(*testing.T) blob.Store { return newMemory() }})
	m := newMemory()
	m.alive = func(context.Context) error {
		if rand.IntN(10) == 0 {
			return errors.New("not now")
		}
		return nil
	}
	if failed := blobtest.Storm(t, m); len(failed) == 0 {
		t.Error("nothing failed")
	}
}
