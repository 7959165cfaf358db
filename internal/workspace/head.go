package workspace

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/blob"
)

// headKey is the key of HEAD, the only object that changes.
const headKey = "HEAD"

// Head lists the versions: the newest ones directly, and older ones in log objects.
type Head struct {
	Format   int       `json:"format"`
	Lineage  string    `json:"lineage"`
	Sequence int64     `json:"sequence"`         // sequence of the newest version
	Versions []Version `json:"versions"`         // newest first; older ones are in Log
	Log      string    `json:"log,omitempty"`    // key of the object with earlier versions
	Prunes   int64     `json:"prunes,omitempty"` // incremented by each prune that removes versions or objects
}

// Version is one entry of the history.
type Version struct {
	ID       string    `json:"id"`
	Sequence int64     `json:"sequence"`
	Parent   string    `json:"parent,omitempty"`
	At       time.Time `json:"at"`
	SHA256   string    `json:"sha256"` // of the stored manifest
	Files    int       `json:"files"`
	Bytes    int64     `json:"bytes"`
	Note     string    `json:"note,omitempty"`
	Writer   string    `json:"writer,omitempty"` // see PushOptions.Writer
	Layout   Layout    `json:"layout,omitempty"`
	Manifest string    `json:"manifest,omitempty"` // key of the manifest; empty means the default

	foreign foreignState
}

// state returns the key of a version's manifest.
func (v Version) state() string { return cmp.Or(v.Manifest, v.ID+"/"+StateFile) }

// historyPage is the number of versions that stay in HEAD when older ones move into a log object. HEAD has at most
// twice as many.
const historyPage = 64

// logPage is a log object with versions that no longer fit into HEAD. It never changes.
type logPage struct {
	Versions []Version `json:"versions"`
	Log      string    `json:"log,omitempty"`
}

const maxHead = 1 << 20

// errNoHead is returned when the prefix has no committed version.
var errNoHead = errors.New("there is no version yet")

// readHead reads HEAD. It returns errNoHead if HEAD does not exist.
func (r *Repo) readHead(ctx context.Context) (*Head, blob.Tag, error) {
	text, tag, err := r.read(ctx, headKey, maxHead)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return nil, "", errNoHead
	case err != nil:
		return nil, "", fmt.Errorf("read HEAD: %w", err)
	}
	h := new(Head)
	if err := json.Unmarshal(text, h); err != nil {
		return nil, "", bad("HEAD is not JSON: %w", err)
	}
	return h, tag, h.check()
}

func (h *Head) check() error {
	switch {
	case h.Format != 1:
		return bad("HEAD has the format %d, and this Berth reads 1", h.Format)
	case len(h.Versions) == 0 || h.Lineage == "":
		return bad("HEAD names no version")
	}
	return logPage{h.Versions, h.Log}.check()
}

func (p logPage) check() error {
	if p.Log != "" && (!strings.HasPrefix(p.Log, logFolder) || checkVersion(p.Log[len(logFolder):]) != nil) {
		return bad("the history leads on to %q", clip(p.Log))
	}
	for _, v := range p.Versions {
		if err := checkVersion(v.ID); err != nil {
			return err
		}
		if rest, ok := strings.CutPrefix(v.Manifest, v.ID+"/"+StateFile+"-"); v.Manifest != "" && (!ok || checkVersion(rest) != nil) {
			return bad("the manifest of version %s is said to be %q", v.ID, clip(v.Manifest))
		}
	}
	return nil
}

// newest returns the newest version.
func (h *Head) newest() Version { return h.Versions[0] }

const logFolder = "log/"

// newPageKey returns a unique key for a log object, so that no existing one is overwritten.
func newPageKey() string { return logFolder + newID() }

// writeHead writes HEAD if its stored tag is still was. This write commits a version.
func (r *Repo) writeHead(ctx context.Context, next *Head, was blob.Tag) (blob.Tag, error) {
	if len(next.Versions) > 2*historyPage {
		page := logPage{Versions: next.Versions[historyPage:], Log: next.Log}
		text, err := json.Marshal(page)
		if err != nil {
			return "", err
		}
		key := newPageKey()
		if _, err := r.put(ctx, key, text, blob.PutOptions{}); err != nil {
			return "", err
		}
		next.Versions, next.Log = next.Versions[:historyPage:historyPage], key
	}
	text, err := json.Marshal(next)
	if err != nil {
		return "", err
	}
	if r.Unconditional {
		return r.put(ctx, headKey, text, blob.PutOptions{})
	}
	return r.put(ctx, headKey, text, blob.PutOptions{IfAbsent: was == "", IfMatch: was})
}

// NewVersionID returns an id that sorts by time. A random suffix makes it unique even at the same instant.
func NewVersionID(now time.Time) string {
	var suffix [3]byte
	_, _ = rand.Read(suffix[:])
	return now.UTC().Format(idTime) + "-" + hex.EncodeToString(suffix[:])
}

const idTime = "20060102T150405.000000000Z"

// checkVersion returns an error if the id of a version is not valid. Ids become parts of keys.
func checkVersion(id string) error {
	if id == "" || len(id) > 100 || id[0] == '.' || strings.Trim(id, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz.-_:") != "" {
		return bad("%q is no id of a version", clip(id))
	}
	return nil
}

// after returns a new id that sorts after the given one, even if the clock went backwards.
func after(before string, now time.Time) string {
	id := NewVersionID(now)
	for id <= before {
		at, err := time.Parse(idTime, strings.SplitN(before, "-", 2)[0])
		if err != nil {
			return id
		}
		now = at.Add(time.Nanosecond)
		id = NewVersionID(now)
	}
	return id
}

// read reads a whole object. It returns an error if the object is larger than most bytes.
func (r *Repo) read(ctx context.Context, key string, most int64) ([]byte, blob.Tag, error) {
	o, err := r.Store.Get(ctx, r.Prefix+key, blob.GetOptions{})
	if err != nil {
		return nil, "", err
	}
	defer o.Body.Close()
	if o.Size > most {
		return nil, "", bad("%s has %d bytes, more than %d", key, o.Size, most)
	}
	text := make([]byte, o.Size)
	if _, err := io.ReadFull(o.Body, text); err != nil {
		return nil, "", fmt.Errorf("read %s: %w", key, err)
	}
	return text, o.Tag, nil
}

func (r *Repo) put(ctx context.Context, key string, text []byte, o blob.PutOptions) (blob.Tag, error) {
	return r.Store.Put(ctx, r.Prefix+key, bytes.NewReader(text), int64(len(text)), o)
}

// manifestOf reads the manifest of a version and verifies its checksum.
func (r *Repo) manifestOf(ctx context.Context, v Version) (*Manifest, error) {
	m, _, err := r.manifestText(ctx, v)
	return m, err
}

// manifestText is manifestOf and also returns the stored text.
func (r *Repo) manifestText(ctx context.Context, v Version) (*Manifest, []byte, error) {
	if v.foreign != notForeign {
		return r.foreignManifest(ctx, v)
	}
	text, _, err := r.read(ctx, v.state(), maxManifest)
	if err != nil {
		return nil, nil, fmt.Errorf("read the manifest of version %s: %w", v.ID, err)
	}
	sum := sha256.Sum256(text)
	if hex.EncodeToString(sum[:]) != v.SHA256 {
		return nil, nil, bad("the manifest of version %s is not the one that was saved", v.ID)
	}
	m, err := Decode(text)
	if err != nil {
		return nil, nil, err
	}
	if m.ID != v.ID {
		return nil, nil, bad("the manifest of version %s says that it is %q", v.ID, clip(m.ID))
	}
	return m, text, nil
}

// BaseOf returns the index of a version without stamps, so that the next scan reads all files.
func (r *Repo) BaseOf(ctx context.Context, id string) (*Index, error) {
	v, err := r.versionOf(ctx, id)
	if err != nil {
		return nil, err
	}
	m, text, err := r.manifestText(ctx, v)
	if err != nil {
		return nil, err
	}
	r.logState(ctx, "state file read", v.state(), len(text))
	return &Index{Manifest: *m, Digest: v.digest(), Stamps: make([]Stamp, len(m.Entries))}, nil
}

// IsEmpty reports whether an error means that there is no version yet.
func IsEmpty(err error) bool { return errors.Is(err, errNoHead) }
