package transcripttest_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/transcript"
	"github.com/berthdev/berth/internal/transcript/transcripttest"
)

// brokenEnv tells another process of this test binary which breakage to run the suite on.
const brokenEnv = "BERTH_TRANSCRIPTTEST_BREAKAGE"

const nothingBroken = "nothing"

// breakages are what may be wrong with a store, and the parts of the suite that must notice it.
var breakages = map[string]struct {
	parts string
	bend  func(*memory)
}{
	"costs are lost": {"WhatIsPutIsGot", func(m *memory) { m.encode = without(`"cost_usd":0.123456789,`) }},
	"NULs are lost":  {"Content", func(m *memory) { m.encode = without(`\u0000`) }},
	"escapes are undone": {"RawInput", func(m *memory) {
		m.encode = func(message api.Message) (string, error) {
			message.Content = slices.Clone(message.Content)
			for i, b := range message.Content {
				var v any
				if json.Unmarshal(b.Input, &v) == nil {
					message.Content[i].Input, _ = json.Marshal(v)
				}
			}
			return transcript.Encode(message)
		}
	}},
	"long ones are cut": {"LargeMessages", func(m *memory) {
		m.encode = func(message api.Message) (string, error) {
			if b := message.Content; len(b) > 0 && len(b[0].Text) > 400_000 {
				message.Content = []api.Block{{Type: b[0].Type, Text: b[0].Text[:400_000]}}
			}
			return transcript.Encode(message)
		}
	}},
	"any size and id": {"TooLarge BadIDs", func(m *memory) {
		m.encode = func(message api.Message) (string, error) {
			body, err := json.Marshal(message)
			return string(body), err
		}
	}},
	"conversations are one":  {"MissingMessages Orders Forget", func(m *memory) { m.place = func(tenant, _ string) string { return tenant } }},
	"the last put wins":      {"SecondPutChangesNothing Race", func(m *memory) { m.put = func(bool) bool { return true } }},
	"tenants see each other": {"Tenants", func(m *memory) { m.place = func(_, conversation string) string { return conversation } }},
	"names run together": {"Tenants", func(m *memory) {
		m.place = func(tenant, conversation string) string {
			return strings.Replace(tenant+":"+conversation, ":1:", ":", 1)
		}
	}},
	"no order": {"Orders All", func(m *memory) {
		m.order = func(ids []string) { rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] }) }
	}},
	"pages overlap": {"Pages PagesWhileOthersWrite", func(m *memory) {
		behind := m.behind
		m.behind = func(id, after string, newest bool) bool {
			return id[:len(id)-1] == after[:max(len(after)-1, 0)] || behind(id, after, newest)
		}
	}},
	"pages know no limit": {"Pages", func(m *memory) { m.page = func(transcript.Page) (int, error) { return 1 << 30, nil } }},
	"pages begin at ids that are there": {"PagesFromAnywhere", func(m *memory) {
		behind := m.behind
		m.behind = func(id, after string, newest bool) bool {
			for _, messages := range m.kept {
				if _, there := messages[after]; there {
					return behind(id, after, newest)
				}
			}
			return true
		}
	}},
	"pages of any size": {"PagesOfLargeMessages", func(m *memory) { m.bytes = 1 << 40 }},
	"one is not forgotten": {"Forget ForgetWhileOthersWrite", func(m *memory) {
		m.forget = func(all map[string]string) {
			for id := range all {
				if len(all) > 1 {
					delete(all, id)
				}
			}
		}
	}},
	"no end":               {"EndedContext", func(m *memory) { m.alive = func(context.Context) error { return nil } }},
	"it says it is broken": {"Check", func(m *memory) { m.broken = errors.New("broken") }},
}

// TestSuiteCatchesBrokenStores runs the suite on stores that are broken, in processes of their own.
func TestSuiteCatchesBrokenStores(t *testing.T) {
	if name := os.Getenv(brokenEnv); name != "" {
		transcripttest.Run(t, func(*testing.T) transcript.Store {
			m := newMemory()
			if name != nothingBroken {
				breakages[name].bend(m)
			}
			return m
		})
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
				t.Errorf("%s: %s does not notice\n%.2000s", name, part, out)
			}
		}
	}
}

func suiteOn(t *testing.T, name, part string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestSuiteCatchesBrokenStores$/^"+part+"$")
	cmd.Env = append(os.Environ(), brokenEnv+"="+name)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
