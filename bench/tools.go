package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/berthdev/berth/internal/testkit/s3test"
)

// tool saves a tree in the bucket of the treeBench and restores it. Each operation is one run of the tool's program.
type tool interface {
	name() string
	begin(ctx context.Context) error // prepares a first push to a new place
	next(ctx context.Context) error  // prepares a push of a new version
	push() call
	restore() call // restores into an empty folder
	pull() call    // updates the restored folder
}

// call is one run of a program.
type call struct {
	args []string // the program and its arguments
	dir  string   // working directory
	env  []string // additional environment variables
}

// berth is the tool 'berth workspace'.
type berth struct {
	*treeBench
	as string
}

func (b *berth) name() string { return b.as }

// begin removes Berth's state files from the tree, so that the tree counts as never saved.
func (b *berth) begin(context.Context) error {
	known, err := filepath.Glob(filepath.Join(b.tree(b), ".sandbox-state*"))
	for _, path := range known {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return err
}

func (b *berth) next(context.Context) error { return nil }

func (b *berth) do(verb, dir string) call {
	return call{args: []string{b.treeBench.berth, "workspace", verb, "--store", b.store(), "--prefix", b.place(b), dir}}
}

func (b *berth) push() call    { return b.do("push", b.tree(b)) }
func (b *berth) restore() call { return b.do("restore", b.treeBench.restored(b)) }
func (b *berth) pull() call    { return b.do("pull", b.treeBench.restored(b)) }

// restic is the backup program restic. It stores files in packs and versions as references, as Berth does. It also
// compresses and encrypts.
type restic struct {
	*treeBench
	as string
}

func (r *restic) name() string { return r.as }

func (r *restic) do(args ...string) call {
	return call{
		args: append([]string{"restic", "--quiet", "--repo", "s3:" + r.endpoint + "/" + bucket + "/" + r.place(r)}, args...),
		dir:  r.tree(r),
		env:  []string{"RESTIC_PASSWORD=bench", "RESTIC_CACHE_DIR=" + filepath.Join(r.treeBench.dir, "cache", r.as)},
	}
}

func (r *restic) begin(ctx context.Context) error {
	_, err := r.run(ctx, r.do("init"))
	return err
}

func (r *restic) next(context.Context) error { return nil }
func (r *restic) push() call                 { return r.do("backup", ".") }
func (r *restic) restore() call {
	return r.do("restore", "latest", "--target", r.treeBench.restored(r))
}
func (r *restic) pull() call { return r.restore() }

// rclone is the program rclone. It stores each file as an object. Its options keep the number of requests low.
type rclone struct {
	*treeBench
	as string
}

func (r *rclone) name() string                { return r.as }
func (r *rclone) begin(context.Context) error { return nil }
func (r *rclone) next(context.Context) error  { return nil }

func (r *rclone) do(args ...string) call {
	return call{args: append([]string{"rclone", "--fast-list", "--transfers", "32", "--checkers", "64"}, args...), env: []string{
		"RCLONE_CONFIG_BENCH_TYPE=s3", "RCLONE_CONFIG_BENCH_PROVIDER=Other", "RCLONE_CONFIG_BENCH_ENDPOINT=" + r.endpoint,
		"RCLONE_CONFIG_BENCH_ACCESS_KEY_ID=" + s3test.AccessKey, "RCLONE_CONFIG_BENCH_SECRET_ACCESS_KEY=" + s3test.SecretKey,
		"RCLONE_CONFIG_BENCH_REGION=" + s3test.Region,
	}}
}

func (r *rclone) quick(args ...string) call {
	return r.do(append([]string{"--update", "--use-server-modtime", "--s3-no-head"}, args...)...)
}

func (r *rclone) remote() string { return "bench:" + bucket + "/" + r.place(r) }
func (r *rclone) push() call     { return r.quick("sync", r.tree(r), r.remote()) }
func (r *rclone) restore() call  { return r.quick("copy", r.remote(), r.treeBench.restored(r)) }
func (r *rclone) pull() call     { return r.quick("sync", r.remote(), r.treeBench.restored(r)) }

// copying is rclone with a new folder for each version. The server copies unchanged files from the folder of the
// previous version. rclone finds them by their modification times, and needs requests to read these times.
type copying struct {
	rclone
	last string
}

func (c *copying) next(ctx context.Context) error {
	if err := c.firstVersion(ctx); err != nil {
		return err
	}
	c.last = c.remote()
	c.places[c.as]++
	return nil
}

// firstVersion saves a first version if there is none.
func (c *copying) firstVersion(ctx context.Context) (err error) {
	if c.places[c.as] == 0 {
		c.places[c.as]++
		_, err = c.run(ctx, c.do("sync", c.tree(c), c.remote()))
	}
	return err
}

func (c *copying) push() call { return c.do("sync", c.tree(c), c.remote(), "--copy-dest", c.last) }
