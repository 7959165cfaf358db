package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/sandbox"
)

// Calls returns all calls of the driver from the driver's log.
func (f *Fleet) Calls() []fake.Call {
	f.t.Helper()
	calls, err := f.Driver.Log()
	if err != nil {
		f.t.Fatal(err)
	}
	return calls
}

// Creates returns the number of creates that reached the driver, by sandbox.
func Creates(calls []fake.Call) map[string]int {
	by := map[string]int{}
	for _, c := range calls {
		if c.Op == fake.Create {
			by[c.Key.Sandbox]++
		}
	}
	return by
}

// Doubles lists instances that were created while another instance of the same sandbox existed.
func Doubles(calls []fake.Call) (found []string) {
	up := map[string][]driver.ID{}
	of := map[driver.ID]string{}
	for _, c := range calls {
		switch {
		case c.Op == fake.Destroy && (c.Effect || c.Outcome == ""):
			up[of[c.ID]] = slices.DeleteFunc(up[of[c.ID]], func(id driver.ID) bool { return id == c.ID })
		case c.Op == fake.Create && c.Effect:
			if there := up[c.Key.Sandbox]; len(there) > 0 {
				found = append(found, fmt.Sprintf("sandbox %s: %s was made beside %v", c.Key.Sandbox, c.ID, there))
			}
			up[c.Key.Sandbox] = append(up[c.Key.Sandbox], c.ID)
			of[c.ID] = c.Key.Sandbox
		}
	}
	return found
}

// Overlaps lists the cases in which an owner had two instances at once. The instances may belong to one sandbox, or to
// a deleted sandbox and its successor. The function stray reports whether an instance was made by a server that lost
// its lease during the call, because it was paused or cut off. Overlaps ignores such instances, because no server can
// prevent them; Unsettled checks that they are ended. A nil stray means that there are none.
func Overlaps(lives []fake.Life, stray func(fake.Life) bool) (found []string) {
	last := map[string]fake.Life{} // for each owner, the instance with the latest end so far
	for _, l := range lives {
		if stray != nil && stray(l) {
			continue
		}
		owner := strings.Join([]string{l.Tenant, l.Labels["berth.owner.kind"], l.Labels["berth.owner.id"]}, "/")
		before, was := last[owner]
		if was && (before.To.IsZero() || before.To.After(l.From)) {
			found = append(found, fmt.Sprintf("%s: %s was made at %s (asked for at %s by process %d), and %s was there until %s",
				owner, l.ID, l.From.Format(clockFormat), l.Asked.Format(clockFormat), l.PID, before.ID, before.To.Format(clockFormat)))
		}
		if !was || !before.To.IsZero() && (l.To.IsZero() || l.To.After(before.To)) {
			last[owner] = l
		}
	}
	return found
}

const clockFormat = "15:04:05.000000"

// Lives returns all instances that the driver has or had.
func (f *Fleet) Lives() []fake.Life {
	f.t.Helper()
	lives, err := f.Driver.Lives()
	if err != nil {
		f.t.Fatal(err)
	}
	return lives
}

// Unsettled compares the servers' sandboxes with the driver's instances. It returns nil if the state of each sandbox
// satisfies its want, the driver has exactly the instance that the sandbox names, and no other instance exists.
func (f *Fleet) Unsettled(ctx context.Context) error {
	have := map[string][]string{}
	live, err := f.Driver.Live()
	if err != nil {
		return err
	}
	for _, st := range live {
		have[st.Key.Sandbox] = append(have[st.Key.Sandbox], string(st.ID))
	}
	var wrong []error
	for s, err := range f.Any().Sandboxes.List(ctx, client.SandboxFilter{}) {
		if err != nil {
			return err
		}
		if !sandbox.Want(s.Want).Satisfied(sandbox.State(s.State)) {
			wrong = append(wrong, fmt.Errorf("%s (%s) is %s and wanted %s: %+v", s.ID, s.Owner.ID, s.State, s.Want, s.Error))
		}
		if want := named(s.Instance); !slices.Equal(have[s.ID], want) {
			wrong = append(wrong, fmt.Errorf("%s (%s) is %s and names %q; the driver has %q", s.ID, s.Owner.ID, s.State, want, have[s.ID]))
		}
		delete(have, s.ID)
	}
	for id, instances := range have {
		wrong = append(wrong, fmt.Errorf("nobody has the sandbox %s, and the driver has %q of it", id, instances))
	}
	return errors.Join(wrong...)
}

func named(instance string) []string {
	if instance == "" {
		return nil
	}
	return []string{instance}
}
