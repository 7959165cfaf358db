package workspace

import (
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

func tooLarge(format string, args ...any) error {
	return sandbox.Errorf("sync workspace", api.CodeWorkspaceTooLarge, format, args...)
}

// unanswered is the error of a sync that ended before it did anything because the store did not answer as it should.
// Other errors stay as they are.
func unanswered(op string, err error, how string) error {
	if !strings.HasPrefix(string(sandbox.CodeOf(err)), "object_store_") {
		return err
	}
	return stopped(op, api.CodeSyncFailed, err, "%s", how)
}

// stopped is the error of a sync that did not get to its end: how far it came, and why. What the store
// says of itself keeps its code, for it says best what to do.
func stopped(op string, code api.Code, err error, format string, args ...any) error {
	if is := sandbox.CodeOf(err); strings.HasPrefix(string(is), "object_store_") || is == api.CodeConflict || is == api.CodeBadManifest {
		code = is
	}
	return sandbox.Errorf(op, code, format+": %w", append(args, err)...)
}
