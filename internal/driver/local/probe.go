package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/sandbox"
)

// Report is what this machine can do.
type Report struct {
	Tier    Tier
	Notes   []string // what is limited, and why
	Problem string   // why there is no tier
	Remedy  string   // what to do about it
}

// refusal is the report of a machine without a tier as an error for people.
func (r Report) refusal() error {
	err := sandbox.Errorf("open local engine", api.CodeUnsupported, "%s", r.Problem)
	err.Hint = r.Remedy
	return err
}

// Probe makes an instance of each kind that this process could have, in a place of its own, and removes
// it again. There is no third way: what cannot be isolated is refused, with the reason and the remedy. An
// error means that it could not be tried.
func Probe(ctx context.Context, opts Options) (Report, error) {
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return Report{}, fmt.Errorf("probe: %w", err)
	}
	opts.Tier = TierUser
	if os.Geteuid() == 0 {
		opts.Tier = TierRoot
	}
	err := trial(ctx, opts)
	if ctx.Err() != nil {
		return Report{}, fmt.Errorf("probe: %w", ctx.Err())
	}
	if err != nil {
		return explain(err, readFacts("/")), nil
	}
	return Report{Tier: opts.Tier, Notes: notes(opts)}, nil
}

// Names of what a probe makes.
const (
	probePrefix = ".probe-"
	probeDir    = "local"
)

// trial makes an instance with nothing in it.
func trial(ctx context.Context, opts Options) (err error) {
	dir, err := os.MkdirTemp(opts.Dir, probePrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := openPlace("", dir)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.tryLock(unix.LOCK_EX); err != nil {
		return err
	}
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		return err
	}
	opts.Dir, opts.Attach, opts.At, opts.DiskEvery = filepath.Join(dir, probeDir), nil, nil, -1
	d, err := open(opts, machine{})
	if err != nil {
		return err
	}
	defer d.Close()
	st, err := d.Create(ctx, driver.Spec{Key: driver.Key{Sandbox: "probe", Incarnation: 1}, Base: empty})
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	return errors.Join(d.ping(ctx, st.ID), d.Destroy(ctx, st.ID), d.WaitIdle(ctx))
}

func (d *Driver) ping(ctx context.Context, id driver.ID) error {
	conn, err := d.Guest(ctx, id)
	if err != nil {
		return err
	}
	return errors.Join(conn.Ping(ctx), conn.Close())
}

// notes say what a tier lacks here.
func notes(opts Options) []string {
	var notes []string
	var usr unix.Statfs_t
	if err := unix.Statfs("/usr", &usr); err == nil && usr.Type == unix.OVERLAYFS_SUPER_MAGIC {
		notes = append(notes, "this machine's /usr is an overlay, whose owners cannot be mapped: in instances of base host its files belong to nobody")
	}
	if opts.Tier == TierUser {
		notes = append(notes, "without root an instance has one user: commands cannot run as its root")
		if groups, err := findCgroups(TierUser); err != nil || len(groups) == 0 {
			notes = append(notes, "limits partial: no cgroup is delegated to this user, so that memory and processors are not limited, only the number of processes and the size of files")
		}
	}
	return notes
}
