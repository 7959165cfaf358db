package gateway

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// A journal that no server reads forgets its oldest lines, and says how many.
func TestJournalIsBounded(t *testing.T) {
	var j journal
	for i := range maxLines + 5 {
		fmt.Fprintf(&j, "%d\n", i)
	}
	lines, dropped := j.take(0)
	if len(lines) != maxLines || dropped != 5 || string(lines[0].Text) != "5" || lines[0].Number != 6 {
		t.Errorf("%d lines from %+v, %d dropped", len(lines), lines[0], dropped)
	}
	if again, dropped := j.take(lines[0].Number); len(again) != maxLines-1 || dropped != 0 {
		t.Errorf("%d lines, %d dropped", len(again), dropped)
	}
}

func TestTooMuchForAMessage(t *testing.T) {
	if err := send(nil, strings.Repeat("x", maxMessage), nil); err == nil || !strings.Contains(err.Error(), "too much") {
		t.Errorf("%v", err)
	}
}

// The level of the lines is the lowest that the server logs.
func TestLevelOfLines(t *testing.T) {
	for _, want := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		var log strings.Builder
		c := &Client{o: Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: want}))}}
		if got := c.level(); got != want {
			t.Errorf("%v, not %v", got, want)
		}
		c.log([]byte("no JSON"))
		c.log([]byte(`{"time":"2026-01-02T03:04:05Z","level":"INFO","msg":"hello","port":8}`))
		if shown := log.String() == "time=2026-01-02T03:04:05.000Z level=INFO msg=hello port=8\n"; shown != (want <= slog.LevelInfo) {
			t.Errorf("at %v the log is %q", want, log.String())
		}
	}
}
