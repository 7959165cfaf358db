package hook

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
)

// Data is the input of a hook and collects the values that the hook sets. The caller of the runner fills in the
// fields that it knows; the runner sets Phase and Sandbox. Each hook gets its own copy.
type Data struct {
	Record         sandbox.Sandbox // row of the sandbox
	Handle         *engine.Handle  // handle on the sandbox's instance; see engine.HandleAt
	ConversationID string
	TurnID         string
	Message        api.Message // the stored message; at the end of a turn, the assistant's
	Usage          api.Usage   // usage of the turn
	Status         string      // status of the ended turn: api.TurnCompleted, …
	Version        string      // newest version of the workspace; at the end of a turn, the version that Push saved, if it ran

	Phase   Phase
	Sandbox Info

	metadata map[string]string
	stats    map[string]float64
}

// Info is a sandbox as hooks see it.
type Info struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"`
	Tenant      string `json:"tenant"`
	Owner       Owner  `json:"owner"`
	Template    string `json:"template"`
	Driver      string `json:"driver"`
	Incarnation int64  `json:"incarnation"`
	S3          *S3    `json:"s3,omitempty"`
}

// Owner identifies the owner of a sandbox.
type Owner struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

// S3 is the location of a workspace's versions.
type S3 struct {
	Bucket     string `json:"bucket,omitempty"` // empty: the server's store is a directory
	Prefix     string `json:"prefix"`
	InitFromS3 bool   `json:"init_from_s3"`
}

func infoOf(s sandbox.Sandbox, s3 *S3) Info {
	return Info{
		ID: s.ID, Name: s.Name, Tenant: s.Owner.Tenant, Owner: Owner{string(s.Owner.Kind), s.Owner.ID},
		Template: s.Spec.Template, Driver: s.Spec.Driver, Incarnation: s.Incarnation, S3: s3,
	}
}

// SetMetadata sets an entry of the sandbox's metadata. It is stored after the hooks of this phase. Berth's own
// counters (total_…) and names that begin with "berth" cannot be set.
func (d *Data) SetMetadata(key, value string) error {
	switch {
	case key == "":
		return fault.Errorf("set metadata", api.CodeInvalidRequest, "an entry has no name")
	case strings.HasPrefix(key, "total_") || strings.HasPrefix(strings.ToLower(key), "berth"):
		return fault.Errorf("set metadata", api.CodeInvalidRequest, "%.100q is reserved for Berth and cannot be set; choose another name", key)
	}
	all := maps.Clone(d.metadata)
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	if err := sandbox.CheckMetadata(all); err != nil {
		return err
	}
	d.metadata = all
	return nil
}

// Metadata returns the entries that hooks have set. The caller of the runner stores them.
func (d *Data) Metadata() map[string]string { return maps.Clone(d.metadata) }

var statKey = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// maxStats is the number of keys that hooks can set in one phase.
const maxStats = 32

// SetStat sets a key of the conversation's stats. It is stored after the hooks of this phase. Berth's own counters
// cannot be set.
func (d *Data) SetStat(key string, value float64) error {
	const op = "set stat"
	switch {
	case key == "messages_exchanged" || strings.HasPrefix(key, "total_"):
		return fault.Errorf(op, api.CodeInvalidRequest, "%s is counted by Berth and cannot be set; choose another key", key)
	case !statKey.MatchString(key):
		return fault.Errorf(op, api.CodeInvalidRequest, "%q is no key: write up to 63 of a-z, 0-9 and '_', beginning with a letter", key)
	case value != value || value > 1e300 || value < -1e300:
		return fault.Errorf(op, api.CodeInvalidRequest, "the value of %s is no number that can be stored", key)
	}
	if _, known := d.stats[key]; !known && len(d.stats) >= maxStats {
		return fault.Errorf(op, api.CodeInvalidRequest, "at most %d keys can be set", maxStats)
	}
	all := maps.Clone(d.stats)
	if all == nil {
		all = map[string]float64{}
	}
	all[key] = value
	d.stats = all
	return nil
}

// Stats returns the stats that hooks have set. The caller of the runner stores them.
func (d *Data) Stats() map[string]float64 { return maps.Clone(d.stats) }

var errNoGuest = errors.New("the sandbox cannot run commands")

// Guest connects to the helper in the sandbox. It does not start a sandbox that does not run.
func (d *Data) Guest(ctx context.Context) (guest.Conn, error) {
	if d.Handle == nil {
		return nil, errNoGuest
	}
	return d.Handle.Guest(ctx)
}

// Command adds the sandbox's environment and user to a command.
func (d *Data) Command(ctx context.Context, cmd guest.Cmd) (guest.Cmd, error) {
	if d.Handle == nil {
		return cmd, nil
	}
	return d.Handle.Command(ctx, cmd)
}

// take copies the values that a hook has set from the hook's copy.
func (d *Data) take(from *Data) {
	d.metadata, d.stats, d.Version = from.metadata, from.stats, from.Version
}

// about identifies the event for which the hooks of this phase run once.
func (d *Data) about() string {
	switch d.Phase {
	case OnMessage:
		return d.Message.ID
	case OnStreamFinish, OnVersionSaved:
		return d.TurnID
	}
	return d.Sandbox.ID
}
