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

// record is the content of recordName. It describes an instance as long as it exists.
type record struct {
	Spec      driver.Spec
	Limits    driver.Limits // the limits of Spec with the defaults at the time of Create
	CreatedAt time.Time
}

// run is the content of runName. It describes one run of an instance.
type run struct {
	Group  group  // its cgroups
	Device string `json:",omitempty"` // the loop device of its disk, for example loop0
}

// maxRecord limits the bytes that readJSON reads. No valid file is as large.
const maxRecord = 1 << 20

// writeJSON replaces a file of an instance with one rename. It does not sync the file.
func writeJSON(p *instanceDir, name string, v any) error {
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

// record reads the record of the instance. If the instance has an image, its limit is hard, whatever the record says.
func (p *instanceDir) record() (record, error) {
	var r record
	if err := readJSON(p.join(recordName), &r); err != nil {
		return r, err
	}
	if idOf(r.Spec.Key) != p.id {
		return r, fmt.Errorf("read %s: it is of instance %s", recordName, idOf(r.Spec.Key))
	}
	if _, err := os.Lstat(p.join(imageName)); err == nil {
		r.Limits.DiskHard = true
	}
	return r, nil
}

// run reads the run file. It returns an empty run if the file does not exist.
func (p *instanceDir) run() (run, error) {
	var r run
	err := readJSON(p.join(runName), &r)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return r, err
}

// lastRun reads the run file of a run that has ended or is being ended. If the file is damaged or missing, the cgroups are
// those of the processes that still run in the directory. After a power loss there are none.
func (rs runs) lastRun(p *instanceDir) run {
	r, err := p.run()
	if err == nil && (r.Group != nil || !p.made()) {
		return r
	}
	r = run{Group: rs.d.groups.runningIn(p)}
	if err != nil || r.Group != nil {
		rs.d.opts.Log.Warn("read the run file of an instance", "path", p.path, "runs", r.Group != nil, "error", err)
	}
	return r
}

// maxReason is the maximum length of a reason, in bytes.
const maxReason = 1 << 10

func (p *instanceDir) reason() string {
	data, err := os.ReadFile(p.join(reasonName))
	if err != nil || bytes.IndexByte(data, 0) >= 0 { // a power loss may leave zeros
		return ""
	}
	return string(data[:min(len(data), maxReason)])
}

func (p *instanceDir) setReason(text string) error {
	if text == "" {
		err := p.disk.remove(p.join(reasonName))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return p.disk.write(p.join(reasonName), []byte(text))
}
