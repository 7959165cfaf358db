package ui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
)

func TestErrorInTheMiddleShowsWhatCameBefore(t *testing.T) {
	items := func(yield func(api.Sandbox, error) bool) {
		_ = yield(api.Sandbox{ID: "1", Name: "first"}, nil) && yield(api.Sandbox{}, fmt.Errorf("broke"))
	}
	var out strings.Builder
	u := New(nil, &out, &out, func(string) (string, bool) { return "", false })
	err := Show(u, items, Listing[api.Sandbox]{Columns: []string{"NAME"}, Row: func(s api.Sandbox) []Cell { return []Cell{Plain(s.Name)} }})
	if err == nil || out.String() != "NAME\nfirst\n" {
		t.Errorf("%v, printed %q", err, out.String())
	}
}

func TestBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{1500 * time.Microsecond: "1ms", 2345 * time.Millisecond: "2.3s"} {
		if got := Brief(d); got != want {
			t.Errorf("brief(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "just now", 900 * time.Millisecond: "just now", 3 * time.Second: "3 s ago", 3*time.Minute + time.Second: "3 min ago",
		47 * time.Hour: "47 h ago", 50 * time.Hour: "2 days ago", -5 * time.Minute: "in 5 min",
	} {
		if got := ago(d); got != want {
			t.Errorf("ago(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestProgressLines(t *testing.T) {
	p := &progress{total: 4 << 20}
	p.Add(3, 1<<20)
	if got := p.line(2 * time.Second); got != " █████░░░░░░░░░░░░░░░ 25%: 3 files, 1.0 MiB, 512.0 KiB/s" {
		t.Error(got)
	}
	p.total = 0
	if got := p.line(0); got != ": 3 files, 1.0 MiB" {
		t.Error(got)
	}
	for n, want := range map[int64]string{0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1024: "1.0 KiB", 1 << 20: "1.0 MiB", 1<<20 - 1: "1.0 MiB", 5 << 40: "5.0 TiB", 1<<63 - 1: "8.0 EiB"} {
		if got := Size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
}
