package local

import (
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

// writeJSON replaces a file of an instance at once.
func writeJSON(p *place, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	temp := p.join("." + name)
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Rename(temp, p.join(name)); err != nil {
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

// syncer makes a record survive a loss of power. It takes too long to be waited for.
func (p *place) syncer() func() {
	paths := []string{p.join(recordName), p.path, filepath.Dir(p.path)}
	return func() {
		for _, path := range paths {
			if f, err := os.Open(path); err == nil {
				_ = f.Sync()
				_ = f.Close()
			}
		}
	}
}

// maxReason bounds what is kept for people to read.
const maxReason = 1 << 10

func (p *place) reason() string {
	data, err := os.ReadFile(p.join(reasonName))
	if err != nil {
		return ""
	}
	return string(data[:min(len(data), maxReason)])
}

func (p *place) setReason(text string) error {
	if text == "" {
		err := os.Remove(p.join(reasonName))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return os.WriteFile(p.join(reasonName), []byte(text), 0o600)
}
