package fake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/berthdev/berth/internal/driver"
)

const (
	faultsFile = "faults.json"
	firedDir   = "fired"
)

// Fault is a fault for every process on a directory.
type Fault struct {
	Op      Op     `json:"op,omitempty"`      // empty: every operation
	Sandbox string `json:"sandbox,omitempty"` // empty: every sandbox
	// Error is the class of error: "unreachable", "transient", "error", or the word of
	// driver.Classify for a sentinel error of package driver, such as "quota"; empty: no error.
	Error string `json:"error,omitempty"`
	After bool   `json:"after,omitempty"` // the fault happens after the effect: only the reply is lost
	// Entries is the number of entries that a List yields before the error.
	Entries int           `json:"entries,omitempty"`
	Slow    time.Duration `json:"slow_ns,omitempty"`
	Times   int           `json:"times,omitempty"` // over all processes; 0: always
}

type faultFile struct {
	Set    string  `json:"set"` // random id of the SetFaults call, the prefix of its files in fired/
	Faults []Fault `json:"faults"`
}

// SetFaults replaces the shared faults of all processes that use dir, from their next call on. Without
// faults it removes them.
func SetFaults(dir string, faults []Fault) error {
	for _, f := range faults {
		if _, known := errorOf(f.Error); !known {
			return fmt.Errorf("set faults: unknown class of error %q", f.Error)
		}
	}
	if _, err := New(dir); err != nil {
		return err
	}
	file := faultFile{Set: strconv.FormatUint(rand.Uint64(), 36), Faults: faults}
	err := write(dir, file, func(tmp string) error { return os.Rename(tmp, filepath.Join(dir, faultsFile)) })
	if err != nil {
		return fmt.Errorf("set faults: %w", err)
	}
	return nil
}

// errorOf returns the error for the class in Fault.Error.
func errorOf(word string) (err error, known bool) {
	injected := errors.New("injected fault")
	switch word {
	case "":
		return nil, true
	case "unreachable":
		return ErrUnreachable, true
	case "error":
		return injected, true
	case "transient":
		return &driver.TransientError{Err: injected}, true
	}
	for _, class := range []error{
		driver.ErrNotFound, driver.ErrNotRunning, driver.ErrUnsupported,
		driver.ErrQuota, driver.ErrUnauthenticated, driver.ErrInvalid,
	} {
		if driver.Classify(class) == word {
			return fmt.Errorf("%w: %w", injected, class), true
		}
	}
	return nil, false
}

// sharedFaults returns the shared faults that match a call. It reads the file each time, which is small and
// usually does not exist.
func (d *Driver) sharedFaults(op Op, key driver.Key) ([]fault, error) {
	file, err := d.faultFile()
	if err != nil {
		return nil, fmt.Errorf("read faults: %w", err)
	}
	var faults []fault
	for i, f := range file.Faults {
		if !matchesOp(f.Op, op) || (f.Sandbox != "" && f.Sandbox != key.Sandbox) {
			continue
		}
		err, known := errorOf(f.Error)
		if !known {
			return nil, fmt.Errorf("read faults: unknown class of error %q", f.Error)
		}
		faults = append(faults, fault{
			when: faultMoment(op, f), entries: f.Entries, slow: f.Slow, err: err,
			take: func() bool { return d.fire(fmt.Sprintf("%s-%d", file.Set, i), f.Times) },
		})
	}
	return faults, nil
}

func (d *Driver) faultFile() (file faultFile, err error) {
	data, err := os.ReadFile(filepath.Join(d.dir, faultsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if err != nil {
		return file, err
	}
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	err = in.Decode(&file)
	return file, err
}

func faultMoment(op Op, f Fault) when {
	switch {
	case f.After:
		return after
	case op == List && f.Entries > 0:
		return within
	}
	return before
}

// fire reports whether the fault may happen once more. It counts by making a file, which only one process
// can make. If times is 0, the fault may always happen.
func (d *Driver) fire(name string, times int) bool {
	if times <= 0 {
		return true
	}
	for i := range times {
		path := filepath.Join(d.dir, firedDir, fmt.Sprintf("%s-%d", name, i))
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			f.Close()
			return true
		}
	}
	return false
}
