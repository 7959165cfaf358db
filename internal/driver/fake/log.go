package fake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

const callsFile = "calls.jsonl"

// Call is one call of the driver, by any process.
type Call struct {
	Time time.Time
	PID  int
	Op   Op
	Key  driver.Key // zero if the instance was not found or has no Key; for a List only the selected sandbox
	ID   driver.ID
	// Effect reports whether the call made or ended an instance or changed its phase.
	Effect bool
	// Outcome is the result of the call as a word of driver.Classify. It is empty if the process
	// died first, or the call still runs.
	Outcome string
}

// Effects counts the calls of op that changed something.
func Effects(calls []Call, op Op) int {
	n := 0
	for _, c := range calls {
		if c.Op == op && c.Effect {
			n++
		}
	}
	return n
}

// The kinds of lines in the log: the request of a call, its effect and its end. Each line is one write to
// a file opened for appending, so that lines of several processes never mix.
const (
	lineAsked  = "asked"
	lineEffect = "effect"
	lineEnded  = "ended"
)

type line struct {
	Call        string    `json:"call"`
	What        string    `json:"what"`
	Time        time.Time `json:"time"`
	PID         int       `json:"pid"`
	Op          Op        `json:"op"`
	Sandbox     string    `json:"sandbox,omitempty"`
	Incarnation int64     `json:"incarnation,omitempty"`
	ID          driver.ID `json:"id,omitempty"`
	Effect      bool      `json:"effect,omitempty"`
	Outcome     string    `json:"outcome,omitempty"`
}

// maxLogged is the maximum length in bytes of text from the caller in a line.
const maxLogged = 256

func (c call) line(what string) line {
	return line{
		Call: c.Call, What: what, Time: time.Now().UTC(), PID: os.Getpid(), Op: c.Op,
		Sandbox: clip(c.Key.Sandbox), Incarnation: c.Key.Incarnation, ID: driver.ID(clip(string(c.ID))),
		Effect: c.Effect, Outcome: c.Outcome,
	}
}

func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxLogged)], "") }

func (d *Driver) appendLine(l line) error {
	data, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("log call: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(d.dir, callsFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("log call: %w", err)
	}
	_, err = f.Write(append(data, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("log call: %w", err)
	}
	return nil
}

// Log returns every call of every process on the directory, in the order of the requests. The effect of
// a Create is known even if its process was killed before it logged the effect, because the instance
// records the call that made it. For other calls of a killed process only a logged effect is known.
func (d *Driver) Log() ([]Call, error) {
	lines, err := readLines(filepath.Join(d.dir, callsFile))
	if err != nil {
		return nil, err
	}
	calls := []Call{}
	index := map[string]int{}
	for _, l := range lines {
		i, known := index[l.Call]
		if !known {
			i = len(calls)
			index[l.Call] = i
			calls = append(calls, Call{Time: l.Time, PID: l.PID, Op: l.Op})
		}
		c := &calls[i]
		c.Key = driver.Key{Sandbox: l.Sandbox, Incarnation: l.Incarnation}
		c.ID, c.Effect, c.Outcome = l.ID, c.Effect || l.Effect, l.Outcome
	}
	return calls, d.addMade(calls, index)
}

// addMade adds the effect of Creates that did not end, from the records of all instances.
func (d *Driver) addMade(calls []Call, index map[string]int) error {
	unanswered := func(c Call) bool { return c.Op == Create && c.Outcome == "" }
	if !slices.ContainsFunc(calls, unanswered) {
		return nil
	}
	made, err := d.everMade()
	for _, r := range made {
		if i, ok := index[r.MadeBy]; ok {
			calls[i].ID, calls[i].Effect = r.ID, true
		}
	}
	return err
}

// everMade returns the records of all existing and ended instances. It reads the existing ones first, so that it finds
// an instance that ends in between among the ended.
func (d *Driver) everMade() ([]record, error) {
	var made []record
	for _, dir := range []string{instancesDir, endedDir} {
		entries, err := os.ReadDir(filepath.Join(d.dir, dir))
		if err != nil {
			return nil, fmt.Errorf("read log: %w", err)
		}
		for _, e := range entries {
			id := driver.ID(e.Name())
			if gone, err := d.isEnded(id); err != nil || gone != (dir == endedDir) {
				continue
			}
			if r, err := load(filepath.Join(d.dir, dir, e.Name()), id); err == nil {
				made = append(made, r)
			}
		}
	}
	return made, nil
}

// readLines reads the lines of the log. It ignores a last line that is still being written.
func readLines(path string) ([]line, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read log: %w", err)
	}
	var lines []line
	for raw := range bytes.Lines(data) {
		if !bytes.HasSuffix(raw, []byte("\n")) {
			break
		}
		var l line
		if err := json.Unmarshal(raw, &l); err != nil {
			return nil, fmt.Errorf("read log line %d: %w", len(lines)+1, err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}
