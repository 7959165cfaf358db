package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/config"
)

// even is a value with a form of its own.
type even int64

func (e *even) UnmarshalTOML(v any) error {
	n, ok := v.(int64)
	switch {
	case !ok:
		return errors.New("is no number")
	case n%2 != 0:
		return &config.Misfit{Why: "is odd", Fix: "write an even number"}
	}
	*e = even(n)
	return nil
}

// shape has a field of every kind that a section may hold.
type shape struct {
	Name   string            `toml:"-"`
	Driver string            `toml:"driver"`
	Sync   *bool             `toml:"sync"`
	Turns  int               `toml:"turns"`
	CPU    float64           `toml:"cpu"`
	Args   []string          `toml:"args"`
	Env    map[string]string `toml:"env"`
	Even   even              `toml:"even"`
	Timers struct {
		AutoStop string `toml:"auto_stop"`
	} `toml:"timers"`
	Mounts []struct {
		Source string `toml:"source"`
	} `toml:"mounts"`
}

const wellFormed = `
[templates.small]
driver = "fake"
sync = false
turns = 3
cpu = 2
args = ["a", "b"]
even = 4
timers.auto_stop = "5m"
mounts = [{source = "/a"}, {source = "/b"}]

[templates.small.env]
A = "b"

[templates.web.env]
A = "b"
`

func TestSectionFillsAStruct(t *testing.T) {
	path := writeFile(t, wellFormed)
	l := load(t, config.Sources{File: path})
	if len(l.Templates) != 2 || l.Templates["small"].Origin != "file "+path+":2" || l.Templates["web"].Origin != "file "+path+":15" {
		t.Errorf("templates %+v", l.Templates)
	}
	rows := l.Rows()
	if last := rows[len(rows)-2:]; last[0].Key != "templates.small" || last[1].Key != "templates.web" {
		t.Errorf("rows end with %v", last)
	}
	got := shape{Name: "kept", Env: map[string]string{"Z": "kept"}}
	got.Mounts = append(got.Mounts, struct {
		Source string `toml:"source"`
	}{"replaced"})
	// Reading twice finds the same: looking a key up must not hide it from the next reader.
	for range 2 {
		if err := l.Templates["small"].Decode(&got); err != nil {
			t.Fatal(err)
		}
	}
	if text := fmt.Sprintf("%s %s %v %d %v %v %v %d %v %v", got.Name, got.Driver, *got.Sync, got.Turns, got.CPU, got.Args, got.Env, got.Even, got.Timers, got.Mounts); text !=
		"kept fake false 3 2 [a b] map[A:b Z:kept] 4 {5m} [{/a} {/b}]" {
		t.Errorf("decoded %s", text)
	}
}

// Every fault of a section is told at once, with its own line.
func TestSectionIsStrict(t *testing.T) {
	path := writeFile(t, `[templates.small]
drivr = "fake"
nonsense = 1
Driver = "fake"
driver = 7
sync = "yes"
turns = "many"
cpu = "all"
args = "a"
env = 3
even = 5
timers = 9
mounts = "/a"
`)
	err := load(t, config.Sources{File: path}).Templates["small"].Decode(new(shape))
	var refused *config.Error
	if !errors.As(err, &refused) {
		t.Fatal(err)
	}
	want := []string{
		`drivr (%s:2) is not a key of templates; did you mean driver?`,
		`nonsense (%s:3) is not a key of templates; remove it; the keys are args, cpu, driver,`,
		`Driver (%s:4) is not a key of templates; did you mean driver?`,
		`driver (%s:5) has a type that does not fit; write text in double quotes`,
		`sync (%s:6) has a type that does not fit; write true or false`,
		`turns (%s:7) has a type that does not fit; write a whole number`,
		`cpu (%s:8) has a type that does not fit; write a number`,
		`args (%s:9) has a type that does not fit; write a list of texts`,
		`env (%s:10) has a type that does not fit; write a table of texts`,
		`even (%s:11) is odd; write an even number`,
		`timers (%s:12) is not a table; write auto_stop under it`,
		`mounts (%s:13) has a type that does not fit; write a list of tables`,
	}
	if len(refused.Problems) != len(want) {
		t.Errorf("%d problems, want %d:\n%v", len(refused.Problems), len(want), err)
	}
	for i, p := range refused.Problems {
		if line := fmt.Sprintf("templates.small."+want[i], "file "+path); !strings.HasPrefix(p.String(), line) {
			t.Errorf("problem %d is\n%s, want\n%s", i, p, line)
		}
	}
}

func TestSectionIsStrictInside(t *testing.T) {
	path := writeFile(t, `[templates.small]
even = "x"
timers.auto_stopp = "5m"
[[templates.small.mounts]]
source = "/a"
[[templates.small.mounts]]
sourc = "/b"
`)
	err := load(t, config.Sources{File: path}).Templates["small"].Decode(new(shape))
	for _, want := range []string{
		"templates.small.even (file " + path + ":2) is no number",
		"templates.small.timers.auto_stopp (file " + path + ":3) is not a key of templates; did you mean auto_stop?",
		"templates.small.mounts[2].sourc (file " + path + ":",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

func TestSectionTellsWhereKeysStand(t *testing.T) {
	path := writeFile(t, wellFormed)
	small := load(t, config.Sources{File: path}).Templates["small"]
	for want, key := range map[int][]string{2: nil, 3: {"driver"}, 9: {"timers", "auto_stop"}, 13: {"env", "A"}, 12: {"env", "B"}, 5: {"turns", "x"}} {
		if got := small.OriginOf(key...); got != fmt.Sprintf("file %s:%d", path, want) {
			t.Errorf("%v stands at %s, want line %d", key, got, want)
		}
	}
	if !small.Has("driver") || small.Has("extends") {
		t.Error("has the wrong keys")
	}
}

func TestSizesAndDurationsForOthers(t *testing.T) {
	if n, err := config.ParseSize("512MiB"); err != nil || config.FormatSize(n) != "512MiB" {
		t.Errorf("%d, %v", n, err)
	}
	if d, err := config.ParseDuration("90m"); err != nil || d != 90*time.Minute || config.FormatDuration(d) != "1h30m" {
		t.Errorf("%v, %v", d, err)
	}
	var misfit *config.Misfit
	if _, err := config.ParseSize("big"); !errors.As(err, &misfit) || !strings.Contains(err.Error(), "is not a size; write") {
		t.Errorf("%v", err)
	}
	if _, err := config.ParseDuration("soon"); !errors.As(err, &misfit) {
		t.Errorf("%v", err)
	}
}
