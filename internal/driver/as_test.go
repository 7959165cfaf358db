package driver_test

import (
	"context"
	"errors"
	"testing"

	"github.com/berthdev/berth/internal/driver"
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
	if e, ok := driver.As[driver.Execer](d); ok {
		_, calls[driver.OpExec] = e.Exec(ctx, "x", driver.Cmd{})
	}
	return calls
}

func TestDecoratorKeepsAbilities(t *testing.T) {
	for name, decorate := range decorators {
		base := &able{}
		got := abilities(t.Context(), decorate(base))
		if len(got) != 5 || base.tries != 5 {
			t.Errorf("%s: %d abilities found, %d used", name, len(got), base.tries)
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
	if got := abilities(t.Context(), hidden{base}); len(got) != 5 {
		t.Errorf("found %v", got)
	}
	if got := abilities(t.Context(), hidden{&stub{}}); len(got) != 0 {
		t.Errorf("found %v", got)
	}
}
