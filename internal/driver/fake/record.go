package fake

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

const (
	instancesDir = "instances"
	endedDir     = "ended"
	tmpDir       = "tmp"
)

// record is the content of an instance's file.
type record struct {
	ID          driver.ID         `json:"id"`
	Sandbox     string            `json:"sandbox,omitempty"`
	Incarnation int64             `json:"incarnation,omitempty"`
	Tenant      string            `json:"tenant,omitempty"`
	Phase       driver.Phase      `json:"phase"`
	Reason      string            `json:"reason,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	CreatedAt   time.Time         `json:"created_at"`
	MadeBy      string            `json:"made_by"` // the id of the Create in the log
}

func newRecord(id driver.ID, spec driver.Spec, madeBy string) record {
	return record{
		ID:          id,
		Sandbox:     spec.Key.Sandbox,
		Incarnation: spec.Key.Incarnation,
		Tenant:      spec.Tenant,
		Phase:       driver.PhaseRunning,
		Labels:      spec.Labels,
		CreatedAt:   time.Now().UTC(),
		MadeBy:      madeBy,
	}
}

func (r record) key() driver.Key {
	return driver.Key{Sandbox: r.Sandbox, Incarnation: r.Incarnation}
}

func (r record) status() driver.Status {
	st := driver.Status{
		ID: r.ID, Key: r.key(), Tenant: r.Tenant, Phase: driver.PhaseUnknown, Raw: string(r.Phase),
		Reason: r.Reason, Labels: r.Labels, CreatedAt: r.CreatedAt,
	}
	switch r.Phase {
	case driver.PhaseStarting, driver.PhaseRunning, driver.PhaseFrozen, driver.PhaseStopped, driver.PhaseFailed:
		st.Phase = r.Phase
	}
	return st
}

// foreignRecord returns the record that stands for an entry that is not an instance of this driver.
func foreignRecord(id driver.ID) record {
	return record{ID: id, Reason: "not an instance of this driver"}
}

// isName reports whether an ID could be the name of a file in the directory.
func isName(id driver.ID) bool {
	s := string(id)
	return s != "" && s != "." && s != ".." && len(s) <= 255 && !strings.ContainsAny(s, "/\x00")
}

func (d *Driver) livePath(id driver.ID) string  { return filepath.Join(d.dir, instancesDir, string(id)) }
func (d *Driver) endedPath(id driver.ID) string { return filepath.Join(d.dir, endedDir, string(id)) }

// read returns the record of an existing instance. It returns driver.ErrNotFound if the instance does not exist.
func (d *Driver) read(id driver.ID) (record, error) {
	if !isName(id) {
		return record{}, driver.ErrNotFound
	}
	r, err := load(d.livePath(id), id)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, d.missing()
	}
	if err != nil {
		return record{}, fmt.Errorf("read instance: %w", err)
	}
	gone, err := d.isEnded(id)
	if gone {
		err = driver.ErrNotFound
	}
	if err != nil {
		return record{}, err
	}
	return r, nil
}

// missing returns the error for an instance without a file: driver.ErrNotFound, or another error if the directory of
// instances cannot be read.
func (d *Driver) missing() error {
	if _, err := os.Stat(d.livePath("")); err != nil {
		return fmt.Errorf("look for instances: %w", err)
	}
	return driver.ErrNotFound
}

func (d *Driver) isEnded(id driver.ID) (bool, error) {
	_, err := os.Lstat(d.endedPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// load reads a record's file. It returns a foreignRecord if the file does not contain a record of that ID. It returns
// an error if it cannot read the file, because that may be an instance.
func load(path string, id driver.ID) (record, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return record{}, err
	}
	if !info.Mode().IsRegular() {
		return foreignRecord(id), nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return record{}, err
	}
	var r record
	if json.Unmarshal(data, &r) != nil || r.ID != id {
		return foreignRecord(id), nil
	}
	return r, nil
}

// write writes v as JSON to a new file under tmp/. Then it calls place with the path of the file, to move
// or link it to its final name.
func write(dir string, v any, place func(tmp string) error) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Join(dir, tmpDir), "*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return place(f.Name())
}
