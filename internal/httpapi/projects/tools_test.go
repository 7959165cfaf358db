package projects

import (
	"context"
	"testing"

	"github.com/berthdev/berth/internal/httpapi/exchange"
)

// A server that has to go ends what has a key, too.
func TestShutdownEndsATool(t *testing.T) {
	for why, ends := range map[error]bool{exchange.ErrShutdown: true, exchange.ErrClaimLost: true, context.Canceled: false} {
		x := &exchange.Exchange{Effect: "id"}
		caller, cut := context.WithCancelCause(exchange.With(t.Context(), x))
		ctx, done := (&handlers{}).working(caller)
		cut(why)
		if ends {
			<-ctx.Done()
		}
		if got := context.Cause(ctx); ends && got != why || !ends && got != nil {
			t.Errorf("%v ends it with %v", why, got)
		}
		done()
	}
}
