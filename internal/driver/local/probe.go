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
	"github.com/berthdev/berth/internal/fault"
)

// Report is the result of Probe.
type Report struct {
	Tier    Tier
	Notes   []string // notes on isolation and limits, for people
	Problem string   // the reason for TierNone
	Remedy  string   // the remedy for Problem
}

// refusal returns a report with TierNone as an error.
func (r Report) refusal() error {
	err := fault.Errorf("open local engine", api.CodeUnsupported, "%s", r.Problem)
	err.Hint = r.Remedy
	return err
}

// Probe makes an instance of the best tier that this process could have, in a temporary directory, and removes
// it again. If that fails, it returns TierNone with the reason and a remedy: there is no tier without isolation.
// An error means that the trial was not possible.
func Probe(ctx context.Context, opts Options) (Report, error) {
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return Report{}, fmt.Errorf("probe: %w", err)
	}
	opts.Tier = possibleTier()
	disk, err := trial(ctx, opts)
	if ctx.Err() != nil {
		return Report{}, fmt.Errorf("probe: %w", ctx.Err())
	}
	if err != nil {
		return explain(err, readFacts("/")), nil
	}
	return Report{Tier: opts.Tier, Notes: append([]string{disk}, notes(opts)...)}, nil
}

// Names of the directories of a probe.
const (
	probePrefix = ".probe-"
	probeDir    = "local"
)

// trial makes an instance with an empty base and removes it. It returns the description of the disk limits.
func trial(ctx context.Context, opts Options) (disk string, err error) {
	dir, err := os.MkdirTemp(opts.Dir, probePrefix)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	p, err := openInstanceDir("", dir)
	if err != nil {
		return "", err
	}
	defer p.Close()
	if err := p.tryLock(unix.LOCK_EX); err != nil {
		return "", err
	}
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		return "", err
	}
	opts.Dir, opts.Attach, opts.At, opts.DiskEvery = filepath.Join(dir, probeDir), nil, nil, -1
	d, err := open(opts, machine{})
	if err != nil {
		return "", err
	}
	defer d.Close()
	st, err := d.Create(ctx, driver.Spec{Key: driver.Key{Sandbox: "probe", Incarnation: 1}, Base: empty})
	if err != nil {
		return "", err
	}
	ctx = context.WithoutCancel(ctx)
	return d.disks.describe(ctx), errors.Join(d.ping(ctx, st.ID), d.Destroy(ctx, st.ID), d.WaitIdle(ctx))
}

func (d *Driver) ping(ctx context.Context, id driver.ID) error {
	conn, err := d.Guest(ctx, id)
	if err != nil {
		return err
	}
	return errors.Join(conn.Ping(ctx), conn.Close())
}

// notes returns notes on the limits of the tier on this machine, for people.
func notes(opts Options) []string {
	var notes []string
	var usr unix.Statfs_t
	if err := unix.Statfs("/usr", &usr); err == nil && usr.Type == unix.OVERLAYFS_SUPER_MAGIC {
		notes = append(notes, "this machine's /usr is an overlay, whose owners cannot be mapped: in instances of base host its files belong to nobody")
	}
	if opts.Tier != TierRoot {
		if opts.Tier == TierUser {
			notes = append(notes, "without root an instance has one user: commands cannot run as its root, unless the user has subordinate ids (/etc/subuid) and starts the server with: "+mappedStart)
		}
		if groups, err := findCgroups(opts.Tier); err != nil || len(groups) == 0 {
			notes = append(notes, noCgroup+"; the number of processes and the size of files are")
		}
		return append(notes, "the kernel's counters per user (inotify, pending signals, message queues) are shared by all instances and this user")
	}
	if groups, err := findCgroups(TierRoot); err == nil {
		notes = append(notes, findIOBounds(thisHost).describe(groups))
	}
	notes = append(notes, socketNotes()...)
	if givesSendTimes() && unix.Access(sendTimes, unix.W_OK) != nil {
		notes = append(notes, "limits partial on kernels before 6.13: sandboxes can take memory with the times of sent messages; refuse them: sysctl -w net.core.tstamp_allow_data=0")
	}
	return append(notes, fileNotes(opts.withDefaults().Defaults.Processes, maxOpenFiles(), enoughOpenFiles(), unix.Access(fileMax, unix.W_OK) == nil))
}

// mappedStart is the command that starts a server in TierMapped. unshare is part of util-linux and needs the package
// uidmap.
const mappedStart = "unshare --map-root-user --map-auto berth serve"

// socketNotes returns a note on the limit for the buffers of sockets.
func socketNotes() []string {
	groups, err := findCgroups(TierRoot)
	if err != nil {
		return nil
	}
	if _, ok := groups[unified]; ok {
		return []string{"cgroup v2: the buffers of sockets count as memory"}
	}
	if _, err := os.Stat(filepath.Join(groups["memory"].dir, socketsFile)); err != nil {
		return []string{"limits partial: this kernel's cgroup v1 does not limit the buffers of sockets; boot it with cgroup v2"}
	}
	return []string{"cgroup v1: the buffers of sockets are limited apart from memory, to an eighth of it"}
}
