package profile_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/acp/profile"
	"github.com/berthdev/berth/internal/testkit"
)

const (
	page  = "../../../docs/reference/agents.md"
	begin = "<!-- generated from internal/acp/profile -->\n"
	end   = "<!-- end of generated -->\n"
)

// The page shows what the profiles say.
func TestReferencePageShowsTheProfiles(t *testing.T) {
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(raw), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatal("the page has no place for the table")
	}
	testkit.Golden(t, page, before+begin+table()+end+after)
}

func table() string {
	var b strings.Builder
	b.WriteString("| `agent` | program | npm packages | Node | key | tokens | permission modes |\n|---|---|---|---|---|---|---|\n")
	for _, name := range profile.Names() {
		p, _ := profile.Find(name)
		var packages, modes []string
		for _, pack := range p.Packages {
			packages = append(packages, fmt.Sprintf("`%s` %s", pack.Name, pack.Version))
		}
		for _, mode := range []string{profile.ModeEverything, profile.ModeEdits, profile.ModePlan, profile.ModeNothing} {
			if _, ok := p.Settings(mode); ok {
				modes = append(modes, "`"+mode+"`")
			}
		}
		node, tokens := "", "estimated"
		if p.Node {
			node = "22"
		}
		if p.Usage.Exact {
			tokens = "exact"
		}
		fmt.Fprintf(&b, "| `%s` | %s: `%s` | %s | %s | `%s` | %s | %s |\n", name, p.Title, strings.Join(append(slices.Clone(p.Command), p.Tail...), " "), strings.Join(packages, ", "),
			node, strings.Join(p.Keys, "`, `"), tokens, strings.Join(modes, ", "))
	}
	return b.String()
}

// Every profile is complete enough to start the agent and to keep its sessions.
func TestProfiles(t *testing.T) {
	if len(profile.Names()) != 13 {
		t.Errorf("%v", profile.Names())
	}
	for _, name := range profile.Names() {
		p, ok := profile.Find(name)
		if !ok || p.Name != name || p.Title == "" || len(p.Command) == 0 || len(p.State) == 0 || len(p.Keys) == 0 || len(p.Hosts) == 0 {
			t.Errorf("%s: %+v", name, p)
		}
		if _, ok := p.Programs[p.Command[0]]; !ok && name != "cursor" { // npm does not have Cursor's program
			t.Errorf("%s: its packages do not bring %s", name, p.Command[0])
		}
		if _, ok := p.Settings("no such mode"); ok {
			t.Errorf("%s has every mode", name)
		}
		if p.Usage.From == profile.FromNothing && p.Usage.Exact {
			t.Errorf("%s counts nothing exactly", name)
		}
	}
	if _, ok := profile.Find("nope"); ok {
		t.Error("there is an agent nope")
	}
	if p, ok := profile.Find(""); !ok || p.StateDir() != "/workspace/.berth/acp" {
		t.Errorf("%+v", p)
	}
}
