package driver_test

import (
	"context"
	"errors"
	"testing"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/files"
)

// abilities calls each ability that As finds, and returns how that went.
func abilities(ctx context.Context, d driver.Driver) map[string]error {
	calls := map[string]error{}
	if s, ok := driver.As[driver.Stopper](d); ok {
		calls[driver.OpStop] = s.Stop(ctx, "x")
		_, calls[driver.OpStart] = s.Start(ctx, "x")
	}
	if f, ok := driver.As[driver.Freezer](d); ok {
		calls[driver.OpFreeze] = f.Freeze(ctx, "x")
		calls[driver.OpThaw] = f.Thaw(ctx, "x")
	}
	if g, ok := driver.As[driver.Guester](d); ok {
		_, calls[driver.OpGuest] = g.Guest(ctx, "x")
		for chunk, err := range g.Output(ctx, "x", "p", 41) {
			if calls["output"] = err; chunk.Next != 42 {
				calls["output"] = errors.New("not the driver's own output")
			}
		}
	}
	if f, ok := driver.As[driver.Filer](d); ok {
		_, calls[driver.OpFiles] = f.Files(ctx, "x", files.WorkingDir)
	}
	return calls
}

func TestDecoratorKeepsAbilities(t *testing.T) {
	for name, decorate := range decorators {
		base := &able{}
		got := abilities(t.Context(), decorate(base))
		if len(got) != 7 || base.tries != 7 {
			t.Errorf("%s: %d abilities found, %d used", name, len(got), base.tries)
		}
		for call, err := range got {
			if err != nil {
				t.Errorf("%s: %s answers %v", name, call, err)
			}
		}
	}
}

func TestDecoratorAddsNoAbility(t *testing.T) {
	for name, decorate := range decorators {
		d := decorate(&stub{})
		if got := abilities(t.Context(), d); len(got) != 0 {
			t.Errorf("%s adds %v", name, got)
		}
		if err := d.(driver.Stopper).Stop(t.Context(), "x"); !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("%s: an ability taken by force answers %v", name, err)
		}
		for _, err := range d.(driver.Guester).Output(t.Context(), "x", "p", 0) {
			if !errors.Is(err, driver.ErrUnsupported) {
				t.Errorf("%s: output taken by force answers %v", name, err)
			}
		}
	}
}

func TestAsFindsTheDriverItself(t *testing.T) {
	base := &able{}
	if got, ok := driver.As[*able](decorators["all"](base)); !ok || got != base {
		t.Errorf("got %v, %v", got, ok)
	}
	if _, ok := driver.As[*able](nil); ok {
		t.Error("nothing has an ability")
	}
}

// hidden is a decorator from elsewhere that knows of no ability.
type hidden struct{ driver.Driver }

func (h hidden) Unwrap() driver.Driver { return h.Driver }

func TestAsPassesByWhatDoesNotKnow(t *testing.T) {
	base := &able{}
	if got := abilities(t.Context(), hidden{base}); len(got) != 7 {
		t.Errorf("found %v", got)
	}
	if got := abilities(t.Context(), hidden{&stub{}}); len(got) != 0 {
		t.Errorf("found %v", got)
	}
}
