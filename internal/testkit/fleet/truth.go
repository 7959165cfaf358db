package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
