package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/berthdev/berth/internal/testkit/s3test"
)

// tool saves a tree in the shed's bucket and brings it back, by a program that is started for each of it.
type tool interface {
	name() string
	begin(ctx context.Context) error // makes its place ready for a first push
	next(ctx context.Context) error  // makes it ready for a new version
	push() call
	restore() call // into an empty folder
	pull() call    // into the folder that was restored
}

// call is a program with its arguments, where it runs, and what it needs in its environment.
type call struct {
	args []string
	dir  string
	env  []string
}

// berth is ours.
type berth struct {
	*shed
	as string
}

func (b *berth) name() string { return b.as }

// begin makes the tree one that was never saved.
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
	return call{args: []string{b.shed.berth, "workspace", verb, "--store", b.store(), "--prefix", b.place(b), dir}}
}

func (b *berth) push() call    { return b.do("push", b.tree(b)) }
func (b *berth) restore() call { return b.do("restore", b.shed.restored(b)) }
func (b *berth) pull() call    { return b.do("pull", b.shed.restored(b)) }

// restic packs and references, as ours does. It compresses and encrypts, too.
type restic struct {
	*shed
	as string
}

func (r *restic) name() string { return r.as }

func (r *restic) do(args ...string) call {
	return call{
		args: append([]string{"restic", "--quiet", "--repo", "s3:" + r.endpoint + "/" + bucket + "/" + r.place(r)}, args...),
		dir:  r.tree(r),
		env:  []string{"RESTIC_PASSWORD=bench", "RESTIC_CACHE_DIR=" + filepath.Join(r.shed.dir, "cache", r.as)},
	}
}

func (r *restic) begin(ctx context.Context) error {
	_, err := r.run(ctx, r.do("init"))
	return err
}

func (r *restic) next(context.Context) error { return nil }
func (r *restic) push() call                 { return r.do("backup", ".") }
func (r *restic) restore() call              { return r.do("restore", "latest", "--target", r.shed.restored(r)) }
func (r *restic) pull() call                 { return r.restore() }

// rclone stores each file as an object. It is told to ask as little as it can.
type rclone struct {
	*shed
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
func (r *rclone) restore() call  { return r.quick("copy", r.remote(), r.shed.restored(r)) }
func (r *rclone) pull() call     { return r.quick("sync", r.remote(), r.shed.restored(r)) }

// copying is rclone where every version is a folder of its own, with what did not change copied by the
// server. The times that ours asks nothing for decide what did: it has to ask for them.
type copying struct {
	rclone
	last string
}

func (c *copying) next(ctx context.Context) error {
	if err := c.settle(ctx); err != nil {
		return err
	}
	c.last = c.remote()
	c.places[c.as]++
	return nil
}

// settle makes a first version if there is none.
func (c *copying) settle(ctx context.Context) (err error) {
	if c.places[c.as] == 0 {
		c.places[c.as]++
		_, err = c.run(ctx, c.do("sync", c.tree(c), c.remote()))
	}
	return err
}

func (c *copying) push() call { return c.do("sync", c.tree(c), c.remote(), "--copy-dest", c.last) }
