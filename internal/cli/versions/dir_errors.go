package versions

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/workspace"
)

// hintedError returns an error with a code and a hint.
func hintedError(code api.Code, hint, format string, args ...any) error {
	e := fault.Errorf("", code, format, args...)
	e.Hint = hint
	return e
}

// storeHints are hints for the command line by code. The hints of api.Code are for servers.
var storeHints = map[api.Code]string{
	api.CodeBlobUnreachable: "Nothing is lost, and the same command goes on where it stopped; if it stays so, check that the store runs and that --store names its address.",
	api.CodeBlobCredentials: "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN for temporary ones), or AWS_PROFILE.",
	api.CodeBlobDenied:      "These credentials must be allowed to get, put, list and delete objects below the prefix.",
	api.CodeBlobNoBucket:    "Make the bucket, or correct its name in --store.",
	api.CodeBlobRegion:      "Put the bucket's region into --store (?region=…) or AWS_REGION.",
	api.CodeBlobClock:       "Set the clock of this machine, with NTP for example; the store refuses requests that are minutes off.",
	api.CodeBadManifest:     "Nothing was deleted. 'berth workspace verify' says which versions are whole; another one can be restored.",
	api.CodeUnknownVersion:  "'berth workspace versions' lists those there are.",
	api.CodeDiskFull:        "The disk is full: free some space, and type the same again.",
	api.CodeMassDelete:      "Look at what it would do with 'berth workspace diff'; --allow-mass-delete does it all the same.",
}

// storeHint adds a hint to the error of a store, unless the error has one for the command line.
func storeHint(err error) error {
	var (
		e      *fault.Error
		hinted *ui.Hinted
	)
	if !errors.As(err, &e) || errors.As(err, &hinted) {
		return err
	}
	hint := ui.First(strings.ReplaceAll(e.Hint, "object_store", "--store"), storeHints[e.Code])
	if hint == "" {
		return err
	}
	return ui.Hint(err, hint)
}

// nothingSaved returns the error that there is no version yet.
func nothingSaved(repo *workspace.Repo) error {
	return hintedError(api.CodeUnknownVersion, "'berth workspace push' saves the first version. If there should be some, look at --store and --prefix.",
		"nothing is saved in %s yet", repo.Location())
}

// versionHint adds a hint to the error that a version was not found: the most similar version, if there is one.
func versionHint(ctx context.Context, repo *workspace.Repo, id string, err error) error {
	switch {
	case workspace.IsEmpty(err):
		return nothingSaved(repo)
	case fault.CodeOf(err) != api.CodeUnknownVersion:
		return storeHint(err)
	}
	if empty, emptyErr := repo.Empty(ctx); emptyErr == nil && empty {
		return nothingSaved(repo)
	}
	if near := remote.Nearest(ctx, id, namesOf(repo)); near != "" {
		return ui.Hint(err, "Did you mean "+near+"? 'berth workspace versions' lists them all.")
	}
	return storeHint(err)
}

func namesOf(repo *workspace.Repo) remote.Names {
	return func(ctx context.Context) iter.Seq2[string, error] {
		return remote.NamesIn(repo.Versions(ctx), func(v workspace.Version) string { return v.ID })
	}
}

// wholeVersion returns the id of the version whose id begins or ends with typed. It returns an error if several do. It
// returns the empty string, which means the newest version, if typed is empty.
func wholeVersion(ctx context.Context, repo *workspace.Repo, typed string) (string, error) {
	if typed == "" {
		return "", nil
	}
	var fits []string
	n := 0
	for v, err := range repo.Versions(ctx) {
		if err != nil {
			return "", storeHint(err)
		}
		n++
		if v.ID == typed {
			return typed, nil
		}
		if strings.HasPrefix(v.ID, typed) || strings.HasSuffix(v.ID, typed) {
			fits = append(fits, v.ID)
		}
	}
	switch {
	case n == 0:
		return "", nothingSaved(repo)
	case len(fits) == 1:
		return fits[0], nil
	case len(fits) > 1:
		return "", hintedError(api.CodeUnknownVersion, "Type more of it.", "%q could be %s or %s", typed, fits[0], fits[1])
	}
	return "", versionHint(ctx, repo, typed, hintedError(api.CodeUnknownVersion, "", "there is no version %q", typed))
}
