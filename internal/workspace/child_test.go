package workspace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/blob"
	blobopen "github.com/berthdev/berth/internal/blob/open"
	"github.com/berthdev/berth/internal/testkit/s3test"
	"github.com/berthdev/berth/internal/workspace"
)

// TestMain is also the process that does a job and is killed at it.
func TestMain(m *testing.M) {
	for name, value := range s3test.Env() {
		_ = os.Setenv(name, value)
	}
	if text := os.Getenv("WORKSPACE_JOB"); text != "" {
		j := new(job)
		if err := json.Unmarshal([]byte(text), j); err != nil {
			panic(err)
		}
		os.Exit(j.main())
	}
	os.Exit(m.Run())
}

// job is what a process of its own does to a workspace, and where it is killed at it.
type job struct {
	Do      string // sync, pull, restore or syncers
	Store   string // its address
	Layout  workspace.Layout
	Dir     string // the tree; of syncers, the trees are in it
	Index   string // file
	Version string // to restore
	Note    string
	Discard bool
	Rounds  int // of syncers

	Step   int    // of a pull, at which it dies
	Window string // of a push, in which it dies; see doomed
}

// done is what a job that came to its end says.
type done struct {
	Version   string
	New       bool
	Conflicts int
}

// run has a process do the job. It returns what that said, and whether it was killed.
func (j job) run(t testing.TB) (out []byte, killed bool, err error) {
	t.Helper()
	cmd := j.command(t)
	return ended(cmd, cmd.Run())
}

func (j job) command(t testing.TB) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(j)
	must(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "WORKSPACE_JOB="+string(text), "GORACE=atexit_sleep_ms=0")
	cmd.Stdout, cmd.Stderr = new(bytes.Buffer), new(bytes.Buffer)
	return cmd
}

func ended(cmd *exec.Cmd, err error) (out []byte, killed bool, _ error) {
	out = cmd.Stdout.(*bytes.Buffer).Bytes()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return out, true, nil
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, cmd.Stderr)
	}
	return out, false, err
}

// main is the process.
func (j *job) main() int {
	err := j.do(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	return 0
}

func (j *job) do(ctx context.Context) error {
	store, err := blobopen.Store(ctx, j.Store)
	if err != nil {
		return err
	}
	if j.Do == "syncers" {
		return j.syncers(ctx, store)
	}
	end := &doomed{window: j.Window}
	r := &workspace.Repo{Store: &doomedStore{store, end}, Layout: j.Layout}
	var steps atomic.Int64
	workspace.SetStep(r, func(what string) {
		if steps.Add(1) == int64(j.Step) {
			die(what)
		}
	})
	dir, err := workspace.OpenDir(j.Dir)
	if err != nil {
		return err
	}
	base, err := workspace.LoadIndex(j.Index)
	if err != nil {
		return err
	}
	res, err := j.sync(ctx, r, &doomedTree{dir, end}, base)
	if err != nil {
		return err
	}
	return j.keep(res, dir, end)
}

func (j *job) sync(ctx context.Context, r *workspace.Repo, t workspace.Tree, base *workspace.Index) (*workspace.Result, error) {
	switch j.Do {
	case "pull":
		return r.Pull(ctx, t, base, workspace.PullOptions{Discard: j.Discard, AllowMassDelete: true})
	case "restore":
		return r.Restore(ctx, t, base, j.Version, workspace.PullOptions{})
	}
	return r.Sync(ctx, t, base, workspace.PushOptions{Note: j.Note, AllowMassDelete: true})
}

// keep writes down what the tree is now, as the command line does.
func (j *job) keep(res *workspace.Result, dir *workspace.Dir, end *doomed) error {
	end.at("pushed")
	if err := res.Index.Save(j.Index); err != nil {
		return err
	}
	end.at("index saved")
	if res.State != nil {
		if err := workspace.WriteState(dir, res.State); err != nil {
			return err
		}
	}
	end.at("state written")
	text, err := json.Marshal(done{res.Version, res.New, len(res.Conflicts)})
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	return err
}

// die ends the process as kill -9 does, once it has said where.
func die(what string) {
	fmt.Print(what)
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	select {}
}

// openStore opens the store at an address for this process.
func openStore(t testing.TB, address string) blob.Store {
	t.Helper()
	s, err := blobopen.Store(t.Context(), address)
	must(t, err)
	if c, ok := s.(interface{ Close() error }); ok {
		t.Cleanup(func() { _ = c.Close() })
	}
	return s
}
