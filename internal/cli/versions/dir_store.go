package versions

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/workspace"
)

// storeFlags holds the flags with the location of a workspace's versions.
type storeFlags struct {
	a           *app
	url, prefix string
}

// storeVariable is the environment variable with the store if --store is not given.
const storeVariable = "BERTH_OBJECT_STORE"

// storeFlags adds the flags to cmd.
func (a *app) storeFlags(cmd *cobra.Command) *storeFlags {
	d := &storeFlags{a: a}
	cmd.Flags().StringVar(&d.url, "store", "", "`URL` of the object store: a directory, or s3://BUCKET/PREFIX?endpoint=…&region=… (default: "+storeVariable+")")
	cmd.Flags().StringVar(&d.prefix, "prefix", "", "`PREFIX` of this workspace's versions in the store (default: none)")
	ui.Offer(cmd, "prefix", []string{})
	return d
}

func (d *storeFlags) address() string { return ui.First(d.url, d.a.Getenv(storeVariable)) }

// open opens the store for reading.
func (d *storeFlags) open(ctx context.Context) (*workspace.Repo, error) {
	if address := d.address(); address != "" {
		if err := workspace.CheckStoreExists(address); err != nil {
			return nil, err
		}
	}
	return d.repo(ctx)
}

func (d *storeFlags) repo(ctx context.Context) (*workspace.Repo, error) {
	if d.address() == "" {
		return nil, ui.Usage("no store is named", "Give --store, or set "+storeVariable+": a directory such as /backup/versions, or s3://BUCKET.")
	}
	prefix := strings.Trim(d.prefix, "/")
	if prefix != "" {
		if err := blob.CheckKey(prefix); err != nil {
			return nil, hintedError(api.CodeInvalidPath, "Give --prefix a relative path, such as projects/shop.", "the prefix %q cannot be one: %w", d.prefix, err)
		}
		prefix += "/"
	}
	store, err := d.a.OpenStore(ctx, d.address())
	if err != nil {
		return nil, storeHint(err)
	}
	if store == nil {
		return nil, ui.Usage("the store is 'none', which keeps nothing", "Name one with --store: a directory such as /backup/versions, or s3://BUCKET.")
	}
	return &workspace.Repo{Store: store, Prefix: prefix, Now: d.a.Now}, nil
}

// openToWrite opens the store for writing. The store must support conditional writes: without a server, nothing else
// keeps two writers from overwriting each other's versions.
func (d *storeFlags) openToWrite(ctx context.Context) (*workspace.Repo, error) {
	repo, err := d.repo(ctx)
	if err != nil {
		return nil, err
	}
	tried := d.a.probeCache(repo.Store.String())
	if tried.fresh() {
		return repo, nil
	}
	conditional, err := blob.Probe(ctx, repo.Store)
	switch {
	case err != nil:
		return nil, storeHint(err)
	case !conditional:
		return nil, hintedError(api.CodeUnsupported, "Use a store that does (S3 itself, versitygw, MinIO, a directory), or sync through a Berth server.",
			"%s does not do conditional writes, so that of two who save at once one would be lost", repo.Store)
	}
	tried.save()
	return repo, nil
}

// versionFlag adds --version to a command that works with one version.
func (d *storeFlags) versionFlag(cmd *cobra.Command, version *string) {
	cmd.Flags().StringVar(version, "version", "", "`VERSION`, or enough of its beginning or end (default: the newest)")
	d.completeVersions(cmd, "version")
}

// completeVersions completes the value of a flag with versions, newest first.
func (d *storeFlags) completeVersions(cmd *cobra.Command, flag string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, _ string) (fits []cobra.Completion, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), remote.CompletionTimeout)
		defer cancel()
		repo, err := d.open(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for v, err := range repo.Versions(ctx) {
			if err != nil || len(fits) == remote.MaxCompletions {
				break
			}
			fits = append(fits, cobra.CompletionWithDesc(v.ID, ui.Clean(ui.First(v.Note, d.a.Time(v.At)))))
		}
		return fits, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	})
}
