package chat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// DisplayDir is the directory in the workspace whose files are shown to the user: those that changed during a turn are
// the turn's artifacts.
const DisplayDir = "output/display"

// Limits of the artifacts of a turn. The files are written by the agent, so their number and size can be any.
const (
	maxArtifacts    = 100
	maxArtifactSize = 1 << 30
	maxDisplayDepth = 8
	displayTime     = 30 * time.Second
)

// display is the content of DisplayDir at the end of a turn.
type display struct {
	Shown     []shown        `json:"shown,omitempty"`
	Artifacts []api.Artifact `json:"artifacts,omitempty"` // without URLs
	Problem   string         `json:"display_problem,omitempty"`
}

// shown is one file of DisplayDir.
type shown struct {
	Path string `json:"p"` // below DisplayDir
	Tag  string `json:"t"` // of files.Info
	Sum  string `json:"s"` // SHA-256 in hex
}

// collect finds the files of DisplayDir that the turn has changed: those that are not as the conversation's last turn
// left them. It reads the files in the sandbox and never fails the turn.
func (w *work) collect(ctx context.Context) display {
	if w.turn.Attempt == 0 {
		return display{}
	}
	ctx, cancel := context.WithTimeout(ctx, displayTime)
	defer cancel()
	d, err := w.readDisplay(ctx)
	switch code := fault.CodeOf(err); {
	case err == nil, code == api.CodeFileNotFound, code == api.CodeUnsupported, code == api.CodeNotRunning, code == api.CodeDeleted, code == api.CodeNotFound:
	case errors.Is(err, context.DeadlineExceeded):
		d.Problem = fmt.Sprintf("reading the files below %s took longer than %s; those that were not read are not shown", DisplayDir, displayTime)
	default:
		d.Problem = fmt.Sprintf("not all files below %s could be read: %s", DisplayDir, err)
	}
	return d
}

func (w *work) readDisplay(ctx context.Context) (d display, err error) {
	workspace, err := w.handle.Files(ctx, files.WorkingDir)
	if err != nil {
		return d, err
	}
	defer workspace.Close()
	page, err := files.List(ctx, workspace, files.ListOptions{Path: DisplayDir, Depth: maxDisplayDepth, Hidden: true, Limit: 10 * maxArtifacts})
	if err != nil {
		return d, err
	}
	before, since, err := w.lastDisplay(ctx)
	if err != nil {
		return d, err
	}
	large, more := 0, 0
	for _, f := range page.Items {
		name := strings.TrimPrefix(f.Path, DisplayDir+"/")
		switch {
		case !f.Mode.IsRegular() || !utf8.ValidString(name):
			continue
		case f.Size > maxArtifactSize:
			large++
			continue
		case len(d.Shown) == maxArtifacts:
			more++
			continue
		}
		was := before[name]
		if was.Tag == f.Tag {
			d.Shown = append(d.Shown, was)
			continue
		}
		artifact, err := readArtifact(ctx, workspace, f)
		if code := fault.CodeOf(err); code == api.CodeFileNotFound || code == api.CodeSpecialFile { // it was removed or replaced since
			continue
		} else if err != nil {
			return d, err
		}
		d.Shown = append(d.Shown, shown{name, f.Tag, artifact.SHA256})
		if artifact.SHA256 != was.Sum && !f.ModTime.Before(since) {
			d.Artifacts = append(d.Artifacts, artifact)
		}
	}
	if large > 0 || more > 0 || page.Next != "" {
		d.Problem = fmt.Sprintf("%s has more or larger files than are shown: at most %d files, each of at most %d MiB", DisplayDir, maxArtifacts, maxArtifactSize>>20)
	}
	return d, nil
}

// lastDisplay returns the files that the conversation's last turn left, by name. If there was no turn, and the sandbox
// is not the conversation's own, files from before this turn are not its artifacts; since is its begin then.
func (w *work) lastDisplay(ctx context.Context) (before map[string]shown, since time.Time, err error) {
	in := w.opts.Store.In(w.tenant)
	t, err := in.Turns().LastFinished(ctx, w.turn.Conversation)
	if errors.Is(err, fault.ErrNotFound) {
		c, err := in.Conversation(ctx, w.turn.Conversation)
		if err == nil && !c.OwnSandbox {
			since = w.turn.CreatedAt
		}
		return nil, since, err
	} else if err != nil {
		return nil, since, err
	}
	var out outcome
	if t.Outcome != nil {
		_ = json.Unmarshal(t.Outcome, &out) // if it cannot be read, all files count as changed
	}
	before = map[string]shown{}
	for _, f := range out.Shown {
		before[f.Path] = f
	}
	return before, since, nil
}

// readArtifact reads a file for its hash and its media type.
func readArtifact(ctx context.Context, workspace files.FS, f files.Info) (a api.Artifact, err error) {
	r, err := workspace.Open(ctx, f.Path)
	if err != nil {
		return a, err
	}
	defer r.Close()
	stop := context.AfterFunc(ctx, func() { _ = r.Close() })
	defer stop()
	head := make([]byte, 512)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return a, readError(ctx, err)
	}
	sum := sha256.New()
	sum.Write(head[:n])
	rest, err := io.Copy(sum, io.LimitReader(r, maxArtifactSize))
	if err != nil {
		return a, readError(ctx, err)
	}
	kind, err := mediaType(api.PromptFile{Name: path.Base(f.Path), Data: head[:n]})
	return api.Artifact{Path: f.Path, Name: path.Base(f.Path), Size: int64(n) + rest, MediaType: kind, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}

// readError returns the reason why a read ended: the context's, if that has ended.
func readError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// artifactsOf returns the artifacts of a turn with their URLs on this server.
func artifactsOf(t store.Turn, d display) []api.Artifact {
	out := slices.Clone(d.Artifacts)
	for i, a := range out {
		parts := strings.Split(a.Path, "/")
		for n := range parts {
			parts[n] = url.PathEscape(parts[n])
		}
		out[i].URL = "/api/v1/sandboxes/" + sandbox.PublicID(t.Sandbox) + "/files/" + strings.Join(parts, "/")
	}
	return out
}
