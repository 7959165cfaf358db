package cli

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workspace"
)

// refusal is an error with a code and a next step.
func refusal(code api.Code, hint, format string, args ...any) error {
	e := sandbox.Errorf("", code, format, args...)
	e.Hint = hint
	return e
}

// storeHints say for whoever types a command what the table of codes says for servers.
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

// storeHint gives an error the next step of whoever types a command, unless who made it knew a better one.
func storeHint(err error) error {
	var (
		e    *sandbox.Error
		told *hinted
	)
	if !errors.As(err, &e) || errors.As(err, &told) {
		return err
	}
	hint := first(strings.ReplaceAll(e.Hint, "object_store", "--store"), storeHints[e.Code])
	if hint == "" {
		return err
	}
	return &hinted{err, hint}
}

// nothingSaved is the error of a command that needs a version where there is none.
func nothingSaved(repo *workspace.Repo) error {
	return refusal(api.CodeUnknownVersion, "'berth workspace push' saves the first version. If there should be some, look at --store and --prefix.",
		"nothing is saved in %s yet", where(repo))
}

// aboutVersion adds to the failure to find a version which one could have been meant.
func aboutVersion(ctx context.Context, repo *workspace.Repo, id string, err error) error {
	switch {
	case workspace.IsEmpty(err):
		return nothingSaved(repo)
	case sandbox.CodeOf(err) != api.CodeUnknownVersion:
		return storeHint(err)
	}
	if empty, emptyErr := repo.Empty(ctx); emptyErr == nil && empty {
		return nothingSaved(repo)
	}
	if near := nearest(ctx, id, namesOf(repo)); near != "" {
		return &hinted{err, "Did you mean " + near + "? 'berth workspace versions' lists them all."}
	}
	return storeHint(err)
}

func namesOf(repo *workspace.Repo) namer {
	return func(ctx context.Context) iter.Seq2[string, error] {
		return namesIn(repo.Versions(ctx), func(v workspace.Version) string { return v.ID })
	}
}

// wholeVersion finds the version that a person means: its id, or enough of its beginning or its end that
// it can be no other. Empty stays empty, which is the newest.
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
		return "", refusal(api.CodeUnknownVersion, "Type more of it.", "%q could be %s or %s", typed, fits[0], fits[1])
	}
	return "", aboutVersion(ctx, repo, typed, refusal(api.CodeUnknownVersion, "", "there is no version %q", typed))
}
