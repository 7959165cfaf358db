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

// Calls is everything that was asked of the driver, by its own log.
func (f *Fleet) Calls() []fake.Call {
	f.t.Helper()
	calls, err := f.Driver.Log()
	if err != nil {
		f.t.Fatal(err)
	}
	return calls
}

// Creates counts the creates that reached the driver, by sandbox.
func Creates(calls []fake.Call) map[string]int {
	by := map[string]int{}
	for _, c := range calls {
		if c.Op == fake.Create {
			by[c.Key.Sandbox]++
		}
	}
	return by
}

// Doubles says where an instance was made while another of the same sandbox was there: nobody had ended
// it, or was killed while ending it.
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

// Overlaps says where an owner had two instances at once, of one sandbox or of two: a deleted one and its
// successor. Stray tells which instances were made by a server that had lost its lease in the middle of the
// call, because it was stopped or cut off: no server can take such a call back. They are left out here; that
// they are ended is for Unsettled to check. Nil: none.
func Overlaps(lives []fake.Life, stray func(fake.Life) bool) (found []string) {
	last := map[string]fake.Life{} // of each owner, the one that lasted longest so far
	for _, l := range lives {
		if stray != nil && stray(l) {
			continue
		}
		owner := strings.Join([]string{l.Tenant, l.Labels["berth.owner.kind"], l.Labels["berth.owner.id"]}, "/")
		before, was := last[owner]
		if was && (before.To.IsZero() || before.To.After(l.From)) {
			found = append(found, fmt.Sprintf("%s: %s was made at %s, and %s was there until %s",
				owner, l.ID, l.From.Format(clock), before.ID, before.To.Format(clock)))
		}
		if !was || !before.To.IsZero() && (l.To.IsZero() || l.To.After(before.To)) {
			last[owner] = l
		}
	}
	return found
}

const clock = "15:04:05.000000"

// Lives is every instance that the driver has or had.
func (f *Fleet) Lives() []fake.Life {
	f.t.Helper()
	lives, err := f.Driver.Lives()
	if err != nil {
		f.t.Fatal(err)
	}
	return lives
}

// Unsettled compares what the servers say with what the driver has. It is nil when every sandbox is where
// it is wanted with just the instance that it names, and no instance belongs to nobody.
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
