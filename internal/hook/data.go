package hook

import (
	"context"
	"maps"
	"regexp"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
)

// Data is what a hook is told, and where it leaves what it wants remembered. Whoever calls the runner fills
// in what there is; the runner adds the phase and Sandbox. Each hook has a copy of its own.
type Data struct {
	Record         sandbox.Sandbox // the sandbox that it is about
	ConversationID string
	TurnID         string
	Message        api.Message // that was stored; the assistant's when a turn is over
	Usage          api.Usage   // of the turn
	Status         string      // how the turn ended: api.TurnCompleted, …
	Version        string      // the newest version of the workspace; at the end of a turn the one that Push saved, if it ran

	Phase   Phase
	Sandbox Info

	metadata map[string]string
	stats    map[string]float64
	in       *box
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

// Owner is whom a sandbox belongs to.
type Owner struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

// S3 is where the versions of a workspace are.
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

// SetMetadata has an entry of the sandbox's metadata set when the hooks of this phase are through. What Berth
// counts itself (total_…) and names beginning with "berth" cannot be set.
func (d *Data) SetMetadata(key, value string) error {
	switch {
	case key == "":
		return sandbox.Errorf("set metadata", api.CodeInvalidRequest, "an entry has no name")
	case strings.HasPrefix(key, "total_") || strings.HasPrefix(strings.ToLower(key), "berth"):
		return sandbox.Errorf("set metadata", api.CodeInvalidRequest, "%.100q is reserved for Berth and cannot be set; choose another name", key)
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

// Metadata is what hooks have set; it is for the caller to store.
func (d *Data) Metadata() map[string]string { return maps.Clone(d.metadata) }

var statKey = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// mostStats is how many keys hooks can set in one phase.
const mostStats = 32

// SetStat has a key of the conversation's stats set when the hooks of this phase are through. What Berth
// counts itself cannot be set.
func (d *Data) SetStat(key string, value float64) error {
	const op = "set stat"
	switch {
	case key == "messages_exchanged" || strings.HasPrefix(key, "total_"):
		return sandbox.Errorf(op, api.CodeInvalidRequest, "%s is counted by Berth and cannot be set; choose another key", key)
	case !statKey.MatchString(key):
		return sandbox.Errorf(op, api.CodeInvalidRequest, "%q is no key: write up to 63 of a-z, 0-9 and '_', beginning with a letter", key)
	case value != value || value > 1e300 || value < -1e300:
		return sandbox.Errorf(op, api.CodeInvalidRequest, "the value of %s is no number that can be stored", key)
	}
	if _, known := d.stats[key]; !known && len(d.stats) >= mostStats {
		return sandbox.Errorf(op, api.CodeInvalidRequest, "at most %d keys can be set", mostStats)
	}
	all := maps.Clone(d.stats)
	if all == nil {
		all = map[string]float64{}
	}
	all[key] = value
	d.stats = all
	return nil
}

// Stats is what hooks have set; it is for the caller to store.
func (d *Data) Stats() map[string]float64 { return maps.Clone(d.stats) }

// Guest connects to the helper in the sandbox. A sandbox that does not run is not started.
func (d *Data) Guest(ctx context.Context) (guest.Conn, error) { return d.in.guest(ctx) }

// Command adds to a command what every command in the sandbox has: its environment and its user.
func (d *Data) Command(cmd guest.Cmd) guest.Cmd { return d.in.command(cmd) }

// take keeps what a hook left in its copy.
func (d *Data) take(from *Data) {
	d.metadata, d.stats, d.Version = from.metadata, from.stats, from.Version
}

// about is what the hooks of this phase run once for.
func (d *Data) about() string {
	switch d.Phase {
	case OnMessage:
		return d.Message.ID
	case OnStreamFinish, OnVersionSaved:
		return d.TurnID
	}
	return d.Sandbox.ID
}
