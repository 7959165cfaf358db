package fleet_test

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

// file is the expected state of one file in a sandbox. No file is written twice, so that the late effect of a request
// without an answer contradicts nothing.
type file struct {
	present      bool
	doubt        bool      // the last change was not answered
	began, acked time.Time // times of the request and the answer of the last change
	checked      bool      // whether the file was compared at least once
}

// write writes a new file.
func (o *owners) write(ctx context.Context, c *client.Client, b *box) error {
	b.next++
	name := fmt.Sprintf("f%d", b.next)
	f := &file{present: true, doubt: true, began: time.Now()}
	b.files[name] = f
	_, _, err := c.Sandboxes.WriteFile(ctx, b.id, api.SourceWorkingDir, name, strings.NewReader(contentOf(b.id, name)), client.WriteOptions{})
	b.noteDeleted(err)
	f.doubt, f.acked = err != nil, time.Now()
	return err
}

func contentOf(id, name string) string { return strings.Repeat(id+"/"+name+"\n", 5) }

// removeFile removes one of the present files.
func (o *owners) removeFile(ctx context.Context, c *client.Client, b *box) error {
	for name, f := range b.files {
		if !f.present || f.doubt {
			continue
		}
		f.doubt = true
		began := time.Now()
		err := c.Sandboxes.DeleteFile(ctx, b.id, api.SourceWorkingDir, name, false)
		b.noteDeleted(err)
		if err == nil {
			*f = file{began: began, acked: time.Now()}
		}
		return err
	}
	return nil
}

// look lists the files and compares them with the acknowledged changes.
func (o *owners) look(ctx context.Context, c *client.Client, b *box) error {
	have := map[string]bool{}
	for f, err := range c.Sandboxes.ListFiles(ctx, b.id, client.FileFilter{}) {
		if err != nil {
			b.noteDeleted(err)
			return err
		}
		have[f.Path] = true
	}
	var reports []report
	for name, f := range b.files {
		if f.doubt {
			continue
		}
		if have[name] == f.present {
			o.count(&o.there, f)
			continue
		}
		if reports == nil {
			var err error
			if reports, err = o.reports(ctx, c, b.id); err != nil {
				return err
			}
		}
		if !o.excused(b.id, f, reports) {
			o.Errorf("sandbox %s: %s was acknowledged as present: %v at %s, is there: %v, and no loss of it is reported\n%s",
				b.id, name, f.present, f.acked.UTC().Format(clockFormat), have[name], o.describe(ctx, c, b.id))
		}
		o.count(&o.lost, f)
		f.present = have[name] // later checks expect the actual state
	}
	return nil
}

func (o *owners) count(n *int, f *file) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n == &o.lost || !f.checked {
		*n++
	}
	f.checked = true
}

// report is an entry of a sandbox's history at the time at: changes of files after since are lost.
type report struct{ since, at time.Time }

var lostSince = regexp.MustCompile(`files changed since (\S+) were not saved and are lost`)

// reports reads the losses from the sandbox's history. The sandbox's field Lost must be set if there are any.
func (o *owners) reports(ctx context.Context, c *client.Client, id string) ([]report, error) {
	found := []report{}
	for h, err := range c.Sandboxes.History(ctx, id) {
		if err != nil {
			return nil, err
		}
		if m := lostSince.FindStringSubmatch(h.Reason); m != nil {
			since, err := time.Parse(time.RFC3339, m[1])
			if err != nil {
				return nil, err
			}
			found = append(found, report{since, h.At})
		}
	}
	s, err := c.Sandboxes.Get(ctx, id)
	if err == nil && len(found) > 0 && s.Lost == nil {
		o.Errorf("sandbox %s: the history has losses %v, and the sandbox has none", id, found)
	}
	return found, err
}

const clockFormat = "15:04:05.000000"

// describe returns the sandbox's history, its versions and the losses of its instances as text.
func (o *owners) describe(ctx context.Context, c *client.Client, id string) string {
	var text strings.Builder
	for h, err := range c.Sandboxes.History(ctx, id) {
		if err != nil {
			break
		}
		fmt.Fprintf(&text, "%s %s %s→%s gen %d inc %d %s\n", h.At.UTC().Format(clockFormat), h.Event, h.From, h.To, h.Generation, h.Incarnation, h.Reason)
	}
	for v, err := range c.Sandboxes.Versions(ctx, id) {
		if err != nil {
			break
		}
		fmt.Fprintf(&text, "version %+v\n", v)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, at := range o.vanished[id] {
		fmt.Fprintf(&text, "%s the driver lost its instance\n", at.UTC().Format(clockFormat))
	}
	return text.String()
}

// excused reports whether the servers reported the loss of the file's change and an instance was really lost before the
// report. The loss may be up to requestTimeout older than the reported time, because a request that was running then
// may have recorded its change right after it.
func (o *owners) excused(id string, f *file, reports []report) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range reports {
		if r.since.After(f.acked) || r.at.Before(f.began) {
			continue
		}
		for _, at := range o.vanished[id] {
			if at.After(r.since.Add(-requestTimeout)) && at.Before(r.at) {
				return true
			}
		}
	}
	return false
}

// contents compares the content of every file that must be present.
func (o *owners) contents(c *client.Client, owner string, b *box) {
	for name, f := range b.files {
		if !f.present || f.doubt || b.deleted {
			continue
		}
		d, err := c.Sandboxes.ReadFile(o.Context(), b.id, api.SourceWorkingDir, name, client.ReadOptions{})
		var data []byte
		if err == nil {
			data, err = io.ReadAll(d)
			_ = d.Close()
		}
		if err != nil || string(data) != contentOf(b.id, name) {
			o.Errorf("%s: %s of sandbox %s has %q, %v", owner, name, b.id, data, err)
		}
	}
}
