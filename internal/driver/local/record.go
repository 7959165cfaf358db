package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

const (
	recordName = "record.json"
	runName    = "run.json"
	reasonName = "reason"
)

// record is what is known of an instance before it runs, for as long as it exists.
type record struct {
	Spec      driver.Spec
	Limits    driver.Limits // with the defaults of the time
	CreatedAt time.Time
}

// run is what is known of an instance while it runs.
type run struct {
	Group group // its cgroups
}

// maxRecord is far more than the bounds of a Spec allow.
const maxRecord = 1 << 20

// writeJSON replaces a file of an instance at once. It does not sync it.
func writeJSON(p *place, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	temp := p.join("." + name)
	if err := p.disk.write(temp, data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := p.disk.rename(temp, p.join(name), 0); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func readJSON(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return nil
}

// record reads what was asked for. An instance without a readable record is there, and nobody's.
func (p *place) record() (record, error) {
	var r record
	if err := readJSON(p.join(recordName), &r); err != nil {
		return r, err
	}
	if idOf(r.Spec.Key) != p.id {
		return r, fmt.Errorf("read %s: it is of instance %s", recordName, idOf(r.Spec.Key))
	}
	return r, nil
}

// run reads where this run's cgroups are; there are none where there is no such file.
func (p *place) run() (run, error) {
	var r run
	err := readJSON(p.join(runName), &r)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return r, err
}

// lastRun reads the run file of a run that has ended or is being ended. A file that a power loss left empty
// or garbled counts as none: the cgroups it named ended with the machine, and the next start writes it anew.
func (d *Driver) lastRun(p *place) run {
	r, err := p.run()
	if err != nil {
		d.opts.Log.Warn("read the run file of an instance; its cgroups are unknown", "path", p.path, "error", err)
		return run{}
	}
	return r
}

// maxReason bounds what is kept for people to read.
const maxReason = 1 << 10

func (p *place) reason() string {
	data, err := os.ReadFile(p.join(reasonName))
	if err != nil || bytes.IndexByte(data, 0) >= 0 { // a power loss may leave zeros
		return ""
	}
	return string(data[:min(len(data), maxReason)])
}

func (p *place) setReason(text string) error {
	if text == "" {
		err := p.disk.remove(p.join(reasonName))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return p.disk.write(p.join(reasonName), []byte(text))
}
