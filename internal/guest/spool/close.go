package spool

import (
	"errors"
	"os"

	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// Close writes the exit x to every spool in root that has none. The caller has made sure that the instance's helper
// has ended, so no process writes to the spools. A missing root is not an error.
func Close(root string, x wire.Exit) error {
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if isSpool(e) {
			err = errors.Join(err, closeOne(root+"/"+e.Name(), x))
		}
	}
	sweepReaders(root)
	return err
}

func closeOne(dir string, x wire.Exit) error {
	r := reader{dir: dir}
	_, exit, err := r.readEnd()
	r.close()
	if exit != nil && err == nil {
		return nil
	}
	end, err := mend(dir)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(dir+"/"+exitFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(encodeEnd(end, x))
	return errors.Join(err, f.Sync(), f.Close())
}

// mend truncates the newest segment after its last complete frame and returns the end offset of the output.
func mend(dir string) (end int64, err error) {
	starts, err := segments(dir)
	if err != nil || len(starts) == 0 {
		return 0, err
	}
	start := starts[len(starts)-1]
	f, err := os.OpenFile(dir+"/"+segmentName(start), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r := reader{file: f, start: start, at: start}
	for {
		frames, err := r.frames()
		if err != nil && !errors.Is(err, ErrDamaged) {
			return 0, err
		}
		if err != nil || len(frames) == 0 {
			return r.at, f.Truncate(r.pos)
		}
	}
}
