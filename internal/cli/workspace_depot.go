package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/workspace"
)

// depot is where the versions of a workspace are, as the flags name it.
type depot struct {
	f           *frame
	url, prefix string
}

// storeVariable names the store where the flag does not.
const storeVariable = "BERTH_OBJECT_STORE"

// depot adds the flags that name one.
func (f *frame) depot(cmd *cobra.Command) *depot {
	d := &depot{f: f}
	cmd.Flags().StringVar(&d.url, "store", "", "`URL` of the object store: a directory, or s3://BUCKET/PREFIX?endpoint=…&region=… (default: "+storeVariable+")")
	cmd.Flags().StringVar(&d.prefix, "prefix", "", "`PREFIX` of this workspace's versions in the store (default: none)")
	offer(cmd, "prefix", []string{})
	return d
}

func (d *depot) address() string { return first(d.url, d.f.env(storeVariable)) }

// open opens the store to look at what is in it.
func (d *depot) open(ctx context.Context) (*workspace.Repo, error) {
	if address := d.address(); address != "" {
		if err := mustBeThere(address); err != nil {
			return nil, err
		}
	}
	return d.repo(ctx)
}

func (d *depot) repo(ctx context.Context) (*workspace.Repo, error) {
	if d.address() == "" {
		return nil, &usageError{"no store is named", "Give --store, or set " + storeVariable + ": a directory such as /backup/versions, or s3://BUCKET."}
	}
	prefix := strings.Trim(d.prefix, "/")
	if prefix != "" {
		if err := blob.CheckKey(prefix); err != nil {
			return nil, refusal(api.CodeInvalidPath, "Give --prefix a relative path, such as projects/shop.", "the prefix %q cannot be one: %w", d.prefix, err)
		}
		prefix += "/"
	}
	store, err := d.f.OpenStore(ctx, d.address())
	if err != nil {
		return nil, storeHint(err)
	}
	if store == nil {
		return nil, &usageError{"the store is 'none', which keeps nothing", "Name one with --store: a directory such as /backup/versions, or s3://BUCKET."}
	}
	return &workspace.Repo{Store: store, Prefix: prefix, Now: d.f.now}, nil
}

// openToWrite opens a store in which conditional writes hold: without a server nothing else keeps two
// writers apart.
func (d *depot) openToWrite(ctx context.Context) (*workspace.Repo, error) {
	repo, err := d.repo(ctx)
	if err != nil {
		return nil, err
	}
	tried := d.f.triedBefore(repo.Store.String())
	if tried.holds() {
		return repo, nil
	}
	conditional, err := blob.Probe(ctx, repo.Store)
	switch {
	case err != nil:
		return nil, storeHint(err)
	case !conditional:
		return nil, refusal(api.CodeUnsupported, "Use a store that does (S3 itself, versitygw, MinIO, a directory), or sync through a Berth server.",
			"%s does not do conditional writes, so that of two who save at once one would be lost", repo.Store)
	}
	tried.keep()
	return repo, nil
}

// where is the depot as a person knows it.
func where(repo *workspace.Repo) string {
	if repo.Prefix == "" {
		return repo.Store.String()
	}
	return repo.Store.String() + ", prefix " + repo.Prefix
}
