package guesttest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/guest"
)

var lifeCases = []testCase{
	{name: "AnotherServerTakesOver", test: anotherServerTakesOver},
	{name: "ContextsAreHonoured", test: contextsAreHonoured},
}

// anotherServerTakesOver closes the connection that a process was started on.
func anotherServerTakesOver(t *testing.T, in instance) {
	first := in.connect(t)
	cmd := guest.Cmd{Argv: []string{"sh", "-c", "for i in 1 2 3 4 5; do echo line $i; read x; done; echo $x"}, Input: true}
	if err := first.Start(t.Context(), "p", cmd); err != nil {
		t.Fatal(err)
	}
	next := until(t, first.Process("p"), 0, "line 1\n")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	p := in.connect(t).Process("p")
	if s, err := p.Status(t.Context()); err != nil || s.Exit != nil {
		t.Fatalf("status %+v, error %v", s, err)
	}
	for i := 2; i <= 5; i++ {
		typed(t, p, "go\n")
		next = until(t, p, next, fmt.Sprintf("line %d\n", i))
	}
	typed(t, p, "the end\n")
	if w := collect(t, p, 0); w.exit.Code != 0 || !strings.HasSuffix(w.all, "line 5\nthe end\n") || !strings.HasPrefix(w.all, "line 1\n") {
		t.Errorf("output %q, exit %+v", w.all, w.exit)
	}
}

func contextsAreHonoured(t *testing.T, in instance) {
	if err := in.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want(t, "ping", in.Ping(ctx), context.Canceled)
	_, err := in.Run(ctx, shell("true"), guest.Stdio{})
	want(t, "run", err, context.Canceled)
	want(t, "start", in.Start(ctx, "p", shell("true")), context.Canceled)
	want(t, "kill all", in.KillAll(ctx), context.Canceled)
	_, err = in.Processes(ctx)
	want(t, "list", err, context.Canceled)
}
