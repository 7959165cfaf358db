package drivertest_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
)

// dawdle is how long some of the broken calls take, so that others get in between.
const dawdle = 5 * time.Millisecond

// breakage is one way of getting a driver wrong.
type breakage struct {
	parts string // of the suite that must notice, separated by spaces
	says  string // what they must say
	bend  func(*bent)
}

var breakages = map[string]breakage{
	"a URL without a host": {"Expose", "Expose returns the URL", func(b *bent) {
		b.eachURL(func(at *driver.Exposure) { at.URL = "/at" })
	}},
	"a URL of the port of another instance": {"Expose", "the URL answers", func(b *bent) {
		var first driver.Exposure
		b.eachURL(func(at *driver.Exposure) {
			if first.URL == "" {
				first = *at
			}
			*at = first
		})
	}},
	"a URL that lives for ever": {"ExposeExpires", "an expired URL still leads", func(b *bent) {
		b.expose = func(ctx context.Context, id driver.ID, port uint16, _ time.Duration) (driver.Exposure, error) {
			return b.procs.Expose(ctx, id, port, time.Hour)
		}
	}},
	"the token is not looked at": {"ExposeForged", "a URL with another token still leads", func(b *bent) {
		b.eachURL(func(at *driver.Exposure) { at.Token = "token" })
	}},
	"URLs of instances that never were": {"ExposeUnknown", "Expose of what does not exist", func(b *bent) {
		b.expose = func(context.Context, driver.ID, uint16, time.Duration) (driver.Exposure, error) {
			return driver.Exposure{URL: "http://127.0.0.1:1/"}, nil
		}
	}},
	"URLs outlive their instance": {"ExposeDestroyed", "an instance that was destroyed still leads", func(b *bent) {
		b.destroy = func(ctx context.Context, id driver.ID) error { return b.procs.Driver.Destroy(ctx, id) }
	}},
	"URLs of stopped instances": {"ExposeStopped", "Expose of a stopped instance", func(b *bent) {
		b.expose = func(ctx context.Context, id driver.ID, port uint16, lifetime time.Duration) (driver.Exposure, error) {
			at, err := b.procs.Expose(ctx, id, port, lifetime)
			if errors.Is(err, driver.ErrNotRunning) {
				err = nil
			}
			return at, err
		}
	}},

	"kind with a capital": {"Kind", "not a lower-case word",
		func(b *bent) { b.kind = func() string { return "Fake" } }},

	"create returns too early": {"Create", "Create returns a starting instance", func(b *bent) {
		b.create = func(ctx context.Context, spec driver.Spec) (driver.Status, error) {
			st, err := b.procs.Create(ctx, spec)
			st.Phase = driver.PhaseStarting
			return st, err
		}
	}},
	"create forgets the tenant": {"Create", "tenant is", func(b *bent) {
		b.create = func(ctx context.Context, spec driver.Spec) (driver.Status, error) {
			spec.Tenant = ""
			return b.procs.Create(ctx, spec)
		}
	}},
	"create is not idempotent": {"CreateAgain", "not *ExistsError", func(b *bent) {
		var n atomic.Int64
		b.showDoubles()
		b.create = func(ctx context.Context, spec driver.Spec) (driver.Status, error) {
			return b.double(ctx, spec, n.Add(1))
		}
	}},
	"create looks first and then makes": {"CreateSameKeyAtOnce", "succeed, not 1", func(b *bent) {
		var n atomic.Int64
		b.showDoubles()
		b.create = func(ctx context.Context, spec driver.Spec) (driver.Status, error) {
			for st, err := range b.list(ctx, driver.Selector{Sandbox: spec.Key.Sandbox}) {
				if err == nil && st.Key == spec.Key {
					return driver.Status{}, &driver.ExistsError{Status: st}
				}
			}
			<-time.After(dawdle)
			return b.double(ctx, spec, n.Add(1))
		}
	}},
	"create answers exists and makes another": {"CreateAgain CreateSameKeyAtOnce", "lists [", func(b *bent) {
		b.create = func(ctx context.Context, spec driver.Spec) (driver.Status, error) {
			st, err := b.procs.Create(ctx, spec)
			if driver.Classify(err) == "exists" {
				b.double(ctx, spec, 1)
			}
			return st, err
		}
	}},
	"create answers exists about nothing": {"CreateAgain", "ExistsError is about", func(b *bent) {
		b.create = func(ctx context.Context, spec driver.Spec) (driver.Status, error) {
			st, err := b.procs.Create(ctx, spec)
			if driver.Classify(err) == "exists" {
				err = &driver.ExistsError{Status: driver.Status{Key: spec.Key}}
			}
			return st, err
		}
	}},
	"an ended key stays taken": {"CreateAfterDestroy", "Create: ", func(b *bent) {
		var used sync.Map
		b.create = func(ctx context.Context, spec driver.Spec) (driver.Status, error) {
			if _, twice := used.LoadOrStore(spec.Key, true); twice {
				return driver.Status{}, errors.New("key was used")
			}
			return b.procs.Create(ctx, spec)
		}
	}},
	"incarnations are one": {"CreateNextIncarnation", "two incarnations have the ID", func(b *bent) {
		b.create = func(ctx context.Context, spec driver.Spec) (driver.Status, error) {
			spec.Key.Incarnation = 1
			st, err := b.procs.Create(ctx, spec)
			if exists, ok := errors.AsType[*driver.ExistsError](err); ok {
				return exists.Status, nil
			}
			return st, err
		}
	}},
	"create takes anything": {"CreateInvalid", `answers "<nil>"`, func(b *bent) {
		b.create = func(ctx context.Context, spec driver.Spec) (driver.Status, error) {
			if spec.Validate() != nil {
				spec = driver.Spec{Key: driver.Key{Sandbox: "some", Incarnation: 1}}
			}
			return b.procs.Create(ctx, spec)
		}
	}},
	"create works one at a time": {"CreateManyAtOnce", "Keys at once: provider quota", func(b *bent) {
		var busy sync.Mutex
		b.create = func(ctx context.Context, spec driver.Spec) (driver.Status, error) {
			if !busy.TryLock() {
				return driver.Status{}, driver.ErrQuota
			}
			defer busy.Unlock()
			<-time.After(dawdle)
			return b.procs.Create(ctx, spec)
		}
	}},

	"inspect errs when it is gone": {"UnknownIDs Destroy DestroyAtOnce", "not ", func(b *bent) {
		b.inspect = func(ctx context.Context, id driver.ID) (driver.Status, error) {
			st, err := b.procs.Inspect(ctx, id)
			if errors.Is(err, driver.ErrNotFound) {
				err = errors.New("404 page not found")
			}
			return st, err
		}
	}},
	"inspect takes a prefix": {"UnknownIDs", "Inspect of", func(b *bent) {
		b.inspect = func(ctx context.Context, id driver.ID) (driver.Status, error) {
			for st, err := range b.procs.List(ctx, driver.Selector{}) {
				if err == nil && id != "" && strings.HasPrefix(string(st.ID), string(id)) {
					return st, nil
				}
			}
			return b.procs.Inspect(ctx, id)
		}
	}},
	"inspect takes its end for the instance's": {"CancelledReads", "calls a live instance not found", func(b *bent) {
		b.inspect = func(ctx context.Context, id driver.ID) (driver.Status, error) {
			st, err := b.procs.Inspect(ctx, id)
			if err != nil {
				err = driver.ErrNotFound
			}
			return st, err
		}
	}},

	"list takes its end for the list's": {"CancelledReads", "List under a cancelled context", func(b *bent) {
		b.list = func(ctx context.Context, sel driver.Selector) iter.Seq2[driver.Status, error] {
			return func(yield func(driver.Status, error) bool) {
				for st, err := range b.procs.List(ctx, sel) {
					if err != nil || !yield(st, nil) {
						return
					}
				}
			}
		}
	}},
	"list ignores the tenant": {"ListSelects", "lists [", func(b *bent) {
		b.list = func(ctx context.Context, sel driver.Selector) iter.Seq2[driver.Status, error] {
			return b.procs.List(ctx, driver.Selector{Sandbox: sel.Sandbox})
		}
	}},
	"list ignores the sandbox": {"ListSelects", "lists [", func(b *bent) {
		b.list = func(ctx context.Context, sel driver.Selector) iter.Seq2[driver.Status, error] {
			return b.procs.List(ctx, driver.Selector{Tenant: sel.Tenant})
		}
	}},
	"list needs a selector": {"ListSelects", "a List of everything leaves out", func(b *bent) {
		b.list = func(ctx context.Context, sel driver.Selector) iter.Seq2[driver.Status, error] {
			if sel == (driver.Selector{}) {
				sel.Tenant = "nobody"
			}
			return b.procs.List(ctx, sel)
		}
	}},
	"list drops stopped ones": {"StopKeepsKey", "lists []", func(b *bent) {
		b.eachListed(func(st *driver.Status) bool { return st.Phase != driver.PhaseStopped })
	}},
	"list drops frozen ones": {"FreezeThaw", "lists []", func(b *bent) {
		b.eachListed(func(st *driver.Status) bool { return st.Phase != driver.PhaseFrozen })
	}},
	"list trims labels": {"ListKeepsLabels", "List: labels are", func(b *bent) {
		b.eachListed(func(st *driver.Status) bool {
			for name, value := range st.Labels {
				st.Labels[name] = strings.TrimSpace(value)
			}
			return true
		})
	}},
	"list clips labels": {"ListKeepsLabels", "List: labels are", func(b *bent) {
		b.eachListed(func(st *driver.Status) bool {
			for name, value := range st.Labels {
				st.Labels[name] = value[:min(len(value), 63)]
			}
			return true
		})
	}},
	"list is locked against destroy": {"ListBrokenOff", "Destroy: context deadline exceeded", func(b *bent) {
		lock := make(chan struct{}, 1)
		b.list = func(ctx context.Context, sel driver.Selector) iter.Seq2[driver.Status, error] {
			return func(yield func(driver.Status, error) bool) {
				lock <- struct{}{}
				defer func() { <-lock }()
				b.procs.List(ctx, sel)(yield)
			}
		}
		b.destroy = func(ctx context.Context, id driver.ID) error {
			select {
			case lock <- struct{}{}:
				defer func() { <-lock }()
				return b.procs.Destroy(ctx, id)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}},
	"list skips an entry when things change": {"ListDuringChange", "leaves out the one that stays", func(b *bent) {
		var creates atomic.Int64
		b.create = func(ctx context.Context, spec driver.Spec) (driver.Status, error) {
			creates.Add(1)
			return b.procs.Create(ctx, spec)
		}
		b.eachListed(func(*driver.Status) bool { return creates.Load() < 2 })
	}},

	"destroy errs when it is gone": {"UnknownIDs Destroy DestroyAtOnce", "not found", func(b *bent) {
		b.destroy = func(ctx context.Context, id driver.ID) error {
			if _, err := b.procs.Inspect(ctx, id); err != nil {
				return err
			}
			<-time.After(dawdle)
			return b.procs.Vanish(id)
		}
	}},
	"destroy takes a prefix": {"UnknownIDs", "instance not found", func(b *bent) {
		b.destroy = func(ctx context.Context, id driver.ID) error {
			for st, err := range b.procs.List(ctx, driver.Selector{}) {
				if err == nil && id != "" && strings.HasPrefix(string(st.ID), string(id)) {
					return b.procs.Destroy(ctx, st.ID)
				}
			}
			return nil
		}
	}},
	"destroy leaves it listed": {"Destroy DestroyStopped DestroyFrozen", "lists [", func(b *bent) {
		var all sync.Map
		b.destroy = func(ctx context.Context, id driver.ID) error {
			if st, err := b.procs.Inspect(ctx, id); err == nil {
				all.Store(id, st)
			}
			return b.procs.Destroy(ctx, id)
		}
		b.list = func(ctx context.Context, sel driver.Selector) iter.Seq2[driver.Status, error] {
			return func(yield func(driver.Status, error) bool) {
				all.Range(func(_, st any) bool { return yield(st.(driver.Status), nil) })
			}
		}
	}},
	"destroy says yes when cancelled": {"CancelledDestroy", "still not so", func(b *bent) {
		b.destroy = func(ctx context.Context, id driver.ID) error {
			if ctx.Err() != nil {
				return nil
			}
			return b.procs.Destroy(ctx, id)
		}
	}},
	"create goes on when cancelled": {"CancelledCreate", "Create under a cancelled context succeeds", func(b *bent) {
		b.create = func(ctx context.Context, spec driver.Spec) (driver.Status, error) {
			return b.procs.Create(context.WithoutCancel(ctx), spec)
		}
	}},
	"create forgets what it made when cut short": {"CancelledCreate CreateCutShort", "lists [", func(b *bent) {
		b.showDoubles()
		b.create = func(ctx context.Context, spec driver.Spec) (driver.Status, error) {
			if ctx.Err() != nil {
				b.double(context.WithoutCancel(ctx), spec, 1)
			}
			return b.procs.Create(ctx, spec)
		}
	}},
	"instances are known in memory only": {"Reopen", "Inspect by another driver", func(b *bent) {
		var made sync.Map
		b.create = func(ctx context.Context, spec driver.Spec) (driver.Status, error) {
			st, err := b.procs.Create(ctx, spec)
			made.Store(st.ID, true)
			return st, err
		}
		b.inspect = func(ctx context.Context, id driver.ID) (driver.Status, error) {
			if _, ok := made.Load(id); !ok {
				return driver.Status{}, driver.ErrNotFound
			}
			return b.procs.Inspect(ctx, id)
		}
	}},

	"stop destroys": {"StopStart", "instance not found", func(b *bent) { b.stop = b.procs.Destroy }},
	"stop of what is missing says yes": {"StopUnknown", "Stop of what does not exist", func(b *bent) {
		b.stop = func(ctx context.Context, id driver.ID) error {
			b.procs.Stop(ctx, id)
			return nil
		}
	}},
	"stop errs when stopped": {"StopStart", "Stop: instance is not running", func(b *bent) {
		b.stop = func(ctx context.Context, id driver.ID) error {
			if b.phase(id) == driver.PhaseStopped {
				return driver.ErrNotRunning
			}
			return b.procs.Stop(ctx, id)
		}
	}},
	"stop does not stop frozen ones": {"StopFrozen", "not stopped", func(b *bent) {
		b.stop = func(ctx context.Context, id driver.ID) error {
			if b.phase(id) == driver.PhaseFrozen {
				return nil
			}
			return b.procs.Stop(ctx, id)
		}
	}},
	"stop stops all": {"StopKeepsKey", "not running", func(b *bent) {
		b.stop = func(ctx context.Context, id driver.ID) error {
			for st := range b.procs.List(ctx, driver.Selector{}) {
				b.procs.Stop(ctx, st.ID)
			}
			return nil
		}
	}},
	"stop loses the files": {"FilesOutliveStop", "not \"kept", func(b *bent) {
		b.stop = func(ctx context.Context, id driver.ID) error {
			os.RemoveAll(b.files(id))
			return errors.Join(os.Mkdir(b.files(id), 0o700), b.procs.Stop(ctx, id))
		}
	}},
	"start does not start": {"StopStart", "Start returns a stopped instance", func(b *bent) { b.start = b.procs.Inspect }},
	"start leaves frozen ones frozen": {"StartFrozen", "Start returns a frozen instance", func(b *bent) {
		b.start = func(ctx context.Context, id driver.ID) (driver.Status, error) {
			if b.phase(id) == driver.PhaseFrozen {
				return b.procs.Inspect(ctx, id)
			}
			return b.procs.Start(ctx, id)
		}
	}},
	"destroy spares stopped ones": {"DestroyStopped", "still not so", func(b *bent) { b.spare(driver.PhaseStopped) }},
	"destroy spares frozen ones":  {"DestroyFrozen", "still not so", func(b *bent) { b.spare(driver.PhaseFrozen) }},

	"freeze does nothing": {"FreezeThaw", "not frozen", func(b *bent) {
		b.freeze = func(ctx context.Context, id driver.ID) error {
			_, err := b.procs.Inspect(ctx, id)
			return err
		}
	}},
	"freeze of what is missing says yes": {"FreezeUnknown", "Freeze of what does not exist", func(b *bent) {
		b.freeze = func(ctx context.Context, id driver.ID) error {
			b.procs.Freeze(ctx, id)
			return nil
		}
	}},
	"freeze and thaw take stopped ones": {"FreezeStopped", "Freeze of a stopped instance", func(b *bent) {
		b.freeze = func(context.Context, driver.ID) error { return nil }
	}},
	"thaw starts stopped ones": {"FreezeStopped", "Thaw of a stopped instance", func(b *bent) {
		b.thaw = func(ctx context.Context, id driver.ID) error {
			_, err := b.procs.Start(ctx, id)
			return err
		}
	}},

	"exec loses the exit code": {"ExecExitCode", "exit 1 is seen as 0", func(b *bent) {
		b.eachExit(func(exit *guest.Exit) { exit.Code = 0 })
	}},
	"exec mixes its outputs": {"ExecOutput", "stdout is", func(b *bent) {
		b.eachCmd(func(_ *guest.Cmd, std *guest.Stdio) { std.Stderr = std.Stdout })
	}},
	"exec has no stdin": {"ExecStdin", "writes", func(b *bent) {
		b.eachCmd(func(_ *guest.Cmd, std *guest.Stdio) { std.Stdin = nil })
	}},
	"exec ignores the directory": {"ExecDir", "writes", func(b *bent) {
		b.eachCmd(func(c *guest.Cmd, _ *guest.Stdio) { c.Dir = "" })
	}},
	"exec ignores the environment": {"ExecEnv", "writes", func(b *bent) {
		b.eachCmd(func(c *guest.Cmd, _ *guest.Stdio) { c.Env = nil })
	}},
	"exec remembers the environment": {"ExecEnv", "writes", func(b *bent) {
		var last []string
		b.eachCmd(func(c *guest.Cmd, _ *guest.Stdio) {
			c.Env = append(last, c.Env...)
			last = c.Env
		})
	}},
	"exec goes through a shell": {"ExecArguments", "writes", func(b *bent) {
		b.eachCmd(func(c *guest.Cmd, _ *guest.Stdio) {
			if len(c.Argv) > 4 {
				c.Argv = append(c.Argv[:4:4], strings.Fields(strings.Join(c.Argv[4:], " "))...)
			}
		})
	}},
	"exec runs nothing gladly": {"ExecRefused", "Run of nothing", func(b *bent) {
		b.eachCmd(func(c *guest.Cmd, _ *guest.Stdio) {
			if len(c.Argv) == 0 {
				c.Argv = []string{"true"}
			}
		})
	}},
	"exec ends quietly with its context": {"ExecCutShort", "has no error", func(b *bent) {
		b.bendRun(func(inner run) run {
			return func(ctx context.Context, id driver.ID, cmd guest.Cmd, std guest.Stdio) (guest.Exit, error) {
				exit, _ := inner(ctx, id, cmd, std)
				return exit, nil
			}
		})
	}},
	"guest of anything":        {"ExecRefused", "Guest where nothing is", func(b *bent) { b.anyGuest() }},
	"exec starts stopped ones": {"ExecStopped", "Guest of a stopped instance", func(b *bent) { b.anyGuest() }},
	"exec runs in frozen ones": {"ExecFrozen", "Guest of a frozen instance", func(b *bent) { b.anyGuest() }},
	"output of nobody is empty": {"OutputUnknown", "Output of a process nobody started", func(b *bent) {
		b.output = func(context.Context, driver.ID, string, int64) iter.Seq2[guest.Chunk, error] {
			return func(func(guest.Chunk, error) bool) {}
		}
	}},
	"files belong to nobody": {"FilesApart FilesEndWithDestroy", "writes", func(b *bent) {
		b.eachCmd(func(c *guest.Cmd, _ *guest.Stdio) { c.Dir = b.dir })
	}},
	"files of everybody are the same": {"FilesRunning FilesRoots", "use of the", func(b *bent) {
		b.eachOpen(func(context.Context, driver.ID, *string) (string, error) { return b.dir, nil })
	}},
	"files have one root": {"FilesRoots", `mark has "home"`, func(b *bent) {
		b.eachOpen(func(_ context.Context, _ driver.ID, root *string) (string, error) {
			if *root == files.HomeDir {
				*root = files.WorkingDir
			}
			return "", nil
		})
	}},
	"files of anything": {"FilesUnknown", "Files where nothing is", func(b *bent) {
		b.eachOpen(func(ctx context.Context, id driver.ID, _ *string) (string, error) {
			if _, err := b.procs.Inspect(ctx, id); err != nil {
				return b.dir, nil
			}
			return "", nil
		})
	}},
	"files need it to run": {"FilesStopped FilesFrozen", "Files: instance is not running", func(b *bent) {
		b.eachOpen(func(_ context.Context, id driver.ID, _ *string) (string, error) {
			if b.phase(id) != driver.PhaseRunning {
				return "", driver.ErrNotRunning
			}
			return "", nil
		})
	}},
}

// eachOpen changes which files are opened: another root, or another directory altogether.
func (b *bent) eachOpen(change func(ctx context.Context, id driver.ID, root *string) (string, error)) {
	b.open = func(ctx context.Context, id driver.ID, root string) (files.FS, error) {
		path, err := change(ctx, id, &root)
		if err != nil {
			return nil, err
		}
		if path == "" {
			return b.procs.Files(ctx, id, root)
		}
		dir, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		return files.NewDir(dir, files.Owner{})
	}
}

// anyGuest connects whatever there is to connect to.
func (b *bent) anyGuest() {
	b.guest = func(_ context.Context, id driver.ID) (guest.Conn, error) { return b.connect(id), nil }
}

// spare makes Destroy do nothing to instances in a phase.
func (b *bent) spare(phase driver.Phase) {
	b.destroy = func(ctx context.Context, id driver.ID) error {
		if b.phase(id) == phase {
			return nil
		}
		return b.procs.Destroy(ctx, id)
	}
}

// eachCmd changes commands before they run.
func (b *bent) eachCmd(change func(*guest.Cmd, *guest.Stdio)) {
	b.bendRun(func(inner run) run {
		return func(ctx context.Context, id driver.ID, cmd guest.Cmd, std guest.Stdio) (guest.Exit, error) {
			change(&cmd, &std)
			return inner(ctx, id, cmd, std)
		}
	})
}

// eachExit changes how commands end.
func (b *bent) eachExit(change func(*guest.Exit)) {
	b.bendRun(func(inner run) run {
		return func(ctx context.Context, id driver.ID, cmd guest.Cmd, std guest.Stdio) (guest.Exit, error) {
			exit, err := inner(ctx, id, cmd, std)
			change(&exit)
			return exit, err
		}
	})
}
