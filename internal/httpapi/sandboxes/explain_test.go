package sandboxes

import (
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

func TestSurvivalIsToldAsItIs(t *testing.T) {
	without, with := strings.Join(survives(false), "\n"), strings.Join(survives(true), "\n")
	if !strings.Contains(without, "archive: refused") || !strings.Contains(without, "terminate: no file") || strings.Contains(with, "refused") {
		t.Errorf("without saving:\n%s\nwith:\n%s", without, with)
	}
}

// One sentence for every situation, which people understand.
func TestSummaries(t *testing.T) {
	testkit.Proves(t, "O6")
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	event := func(e sandbox.Event, to sandbox.State, reason string, at time.Duration) sandbox.Transition {
		return sandbox.Transition{Event: e, From: "x", To: to, Reason: reason, At: ago(at)}
	}
	wish := func(reason, actor string) sandbox.Transition { return sandbox.Transition{Reason: reason, Actor: actor} }
	failure := &sandbox.Failure{Message: "the driver is away.", Attempts: 3}
	ready := event(sandbox.EventReady, sandbox.Running, "created", 2*time.Hour)
	for _, c := range []struct {
		s     sandbox.Sandbox
		past  []sandbox.Transition
		ahead []sandbox.Upcoming
		holds []store.Held
		away  string
		want  string
	}{
		{
			s:    sandbox.Sandbox{State: sandbox.Stopped},
			past: []sandbox.Transition{event(sandbox.EventHalted, sandbox.Stopped, "stopped", 3*time.Minute), wish("not used for 15m0s", "timer")},
			want: "Stopped 3 minutes ago because it was not used for 15m0s; its files are kept; the next use starts it.",
		}, {
			s:    sandbox.Sandbox{State: sandbox.Stopped},
			past: []sandbox.Transition{event(sandbox.EventHalted, sandbox.Stopped, "stopped", 36*time.Hour), wish("running for 24h0m0s", "timer")},
			want: "Stopped 1 day ago because it had been running for 24h0m0s; its files are kept; the next use starts it.",
		}, {
			s:     sandbox.Sandbox{State: sandbox.Stopped, Want: sandbox.WantRunning},
			past:  []sandbox.Transition{event(sandbox.EventHalted, sandbox.Stopped, "found stopped", time.Second), ready, wish("requested", "key 1")},
			ahead: []sandbox.Upcoming{{What: "work", At: now}},
			want:  "Found stopped 1 second ago, without a request; its files are kept; the next use starts it; Berth is at work on it.",
		}, {
			s: sandbox.Sandbox{State: sandbox.Stopped, Want: sandbox.WantRunning, Failure: &sandbox.Failure{Message: "hook check: exited with 4", Want: sandbox.WantRunning, Attempts: 1, Final: true}},
			past: []sandbox.Transition{
				event(sandbox.EventHalted, sandbox.Stopped, "hook check: exited with 4", time.Minute), event(sandbox.EventStart, sandbox.Starting, "used again", time.Minute), wish("requested", "key 1"),
			},
			ahead: []sandbox.Upcoming{{What: "stop", At: now.Add(14 * time.Minute)}, {What: "archive", At: now.Add(24 * time.Hour)}, {What: "retry"}},
			want:  "Stopped 1 minute ago because its start was refused: hook check: exited with 4; its files are kept; the next use starts it; it is archived in 1 day unless it is used.",
		}, {
			s:    sandbox.Sandbox{State: sandbox.Pending, CreatedAt: now},
			want: "Asked for just now, and not begun yet.",
		}, {
			s:    sandbox.Sandbox{State: sandbox.Creating, CreatedAt: ago(time.Hour)},
			past: []sandbox.Transition{event(sandbox.EventBegin, sandbox.Creating, "first use", 5*time.Second)},
			want: "Being brought up for 5 seconds, made for its first use.",
		}, {
			s:    sandbox.Sandbox{State: sandbox.Starting},
			past: []sandbox.Transition{event(sandbox.EventStart, sandbox.Starting, "a start did not finish", 0)},
			want: "Being brought up for less than a second (a start did not finish).",
		}, {
			s:     sandbox.Sandbox{State: sandbox.Running, StartedAt: ago(2 * time.Hour), ActiveAt: ago(time.Minute), Recovered: sandbox.Recoveries{Count: 2, Since: ago(5 * time.Minute)}},
			past:  []sandbox.Transition{ready, event(sandbox.EventBegin, sandbox.Creating, "used again", 2*time.Hour)},
			ahead: []sandbox.Upcoming{{What: "probe", At: now}, {What: "archive", Off: "it would lose the files"}, {What: "delete", At: now.Add(50 * time.Hour)}},
			want:  "Running for 2 hours, brought back because it was used again; last used 1 minute ago; it came back by itself twice, first 5 minutes ago; it is terminated, after a save, in 2 days unless it is used.",
		}, {
			s:     sandbox.Sandbox{State: sandbox.Running, StartedAt: ago(time.Hour), ActiveAt: now, Recovered: sandbox.Recoveries{Count: 1, Since: ago(time.Minute)}},
			holds: []store.Held{{Kind: "terminal"}, {Kind: "exec"}, {Kind: "terminal"}},
			want:  "Running for 1 hour; last used just now; it came back by itself once, 1 minute ago; in use (exec, terminal); nothing stops it by itself.",
		}, {
			s:     sandbox.Sandbox{State: sandbox.Unhealthy, CreatedAt: ago(time.Second), Failure: &sandbox.Failure{Message: "nothing inside answers", Attempts: 1}},
			ahead: []sandbox.Upcoming{{What: "work", At: now}},
			want:  "Unhealthy for 1 second: nothing inside answers; Berth is at work on it.",
		}, {
			s:    sandbox.Sandbox{State: sandbox.Stopping, CreatedAt: ago(2 * time.Second)},
			past: []sandbox.Transition{wish("asked to stop", "key 7")},
			want: "Being stopped for 2 seconds because it was asked to stop by key 7; its files are kept.",
		}, {
			s:    sandbox.Sandbox{State: sandbox.Archived, Synced: sandbox.SyncMark{Version: "v9"}},
			past: []sandbox.Transition{event(sandbox.EventArchive, sandbox.Archived, "", 49*time.Hour), wish("not used for 24h0m0s", "timer")},
			want: "Archived 2 days ago because it was not used for 24h0m0s; its workspace is saved as version v9; the next use brings it back.",
		}, {
			s:    sandbox.Sandbox{State: sandbox.Terminating, CreatedAt: ago(2 * time.Second), Finalizers: []string{"terminate", "instance"}},
			past: []sandbox.Transition{wish("", "")},
			want: "Being ended for 2 seconds, with this left to do: terminate, instance.",
		}, {
			s:    sandbox.Sandbox{State: sandbox.Terminated, Synced: sandbox.SyncMark{Version: "v9"}},
			past: []sandbox.Transition{event(sandbox.EventEnded, sandbox.Terminated, "", time.Hour), wish("not used for 1h0m0s, in a cleanup", "key 7")},
			want: "Terminated 1 hour ago because it was not used for 1h0m0s, in a cleanup by key 7; its workspace is saved as version v9; the next use brings it back.",
		}, {
			s:    sandbox.Sandbox{State: sandbox.Terminated},
			past: []sandbox.Transition{event(sandbox.EventLost, sandbox.Terminated, "the driver confirmed that the instance is gone", time.Minute)},
			want: "Its instance was lost 1 minute ago: the driver confirmed that the instance is gone; its files are gone; the next use begins anew.",
		}, {
			s:     sandbox.Sandbox{State: sandbox.Failed, CreatedAt: ago(5 * time.Minute), Failure: failure},
			ahead: []sandbox.Upcoming{{What: "retry", At: now.Add(20 * time.Second)}},
			want:  "In error for 5 minutes: the driver is away (3 times in a row); it is tried again in 20 seconds.",
		}, {
			s:     sandbox.Sandbox{State: sandbox.Failed, CreatedAt: ago(5 * time.Minute)},
			ahead: []sandbox.Upcoming{{What: "retry", At: now}},
			want:  "In error for 5 minutes; it is tried again now.",
		}, {
			s:     sandbox.Sandbox{State: sandbox.Failed, CreatedAt: ago(5 * time.Minute), Failure: &sandbox.Failure{Message: "it never answers", Attempts: 1, Final: true}},
			ahead: []sandbox.Upcoming{{What: "stop", At: now.Add(14 * time.Minute)}, {What: "retry"}},
			want:  "In error for 5 minutes: it never answers; the next use tries again; it is stopped in 14 minutes unless it is used.",
		}, {
			s:    sandbox.Sandbox{State: sandbox.Terminated, DeletedAt: ago(time.Hour)},
			past: []sandbox.Transition{wish("deleted", "key 7")},
			want: "Deleted 1 hour ago by key 7; nothing is left of it but its history, and its id is never used again.",
		}, {
			s:     sandbox.Sandbox{State: sandbox.Terminating, DeletedAt: ago(time.Minute), Finalizers: []string{"instance"}, Failure: failure},
			ahead: []sandbox.Upcoming{{What: "work", At: now}},
			want:  "Being deleted for 1 minute, with this left to do: instance: the driver is away (3 times in a row); Berth is at work on it.",
		}, {
			s:     sandbox.Sandbox{State: sandbox.Running, DeletedAt: ago(time.Minute)},
			past:  []sandbox.Transition{wish("deleted", "key 7")},
			ahead: []sandbox.Upcoming{{What: "work", At: now}},
			away:  "vm-1",
			want:  "Being deleted for 1 minute by key 7; its machine vm-1 does not answer: start the server there, or, if it is gone for good, run 'berth host forget vm-1'.",
		},
	} {
		if got := (situation{now, c.s, c.past, c.ahead, c.holds, c.away}).summary(); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.s.State, got, c.want)
		}
	}
}
