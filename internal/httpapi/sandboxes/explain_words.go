package sandboxes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
)

// summary describes the sandbox in one sentence.
func (t situation) summary() string {
	parts := append(t.present(), t.saved()...)
	if next := t.next(); next != "" {
		parts = append(parts, next)
	}
	return strings.Join(parts, "; ") + "."
}

// present describes the sandbox's state: since when, for which reason, and what it means for the files.
func (t situation) present() []string {
	s := t.s
	if s.Deleted() {
		return t.deleted()
	}
	since := " " + t.ago(t.since())
	switch s.State {
	case sandbox.Pending:
		return []string{"Asked for" + since + ", and not begun yet"}
	case sandbox.Creating, sandbox.Starting:
		return []string{"Being brought up for " + t.span(t.since()) + t.reason(sandbox.EventBegin, sandbox.EventStart)}
	case sandbox.Running:
		return t.running()
	case sandbox.Unhealthy:
		return []string{"Unhealthy for " + t.span(t.since()) + t.complaint()}
	case sandbox.Stopping:
		return []string{"Being stopped for " + t.span(t.since()) + t.because(), "its files are kept"}
	case sandbox.Stopped:
		how := "Stopped" + since + t.because()
		if found := t.newest(sandbox.EventHalted); found != nil && found.Reason == "found stopped" && s.Want == sandbox.WantRunning {
			how = "Found stopped" + since + ", without a request"
		}
		if f := s.Failure; f != nil && f.Final && s.Want == sandbox.WantRunning {
			how = "Stopped" + since + " because its start was refused" + t.complaint()
		}
		return []string{how, "its files are kept", "the next use starts it"}
	case sandbox.Archived:
		return []string{"Archived" + since + t.because(), "its workspace is saved" + t.version(), "the next use brings it back"}
	case sandbox.Terminating:
		return []string{"Being ended for " + t.span(t.since()) + t.because() + t.left()}
	case sandbox.Terminated:
		return t.terminated(since)
	}
	return []string{"In error for " + t.span(t.since()) + t.complaint()}
}

func (t situation) deleted() []string {
	by := ""
	if wish := t.wish(); wish != nil && wish.Actor != "" {
		by = " by " + wish.Actor
	}
	if t.s.State == sandbox.Terminated {
		return []string{"Deleted " + t.ago(t.s.DeletedAt) + by, "nothing is left of it but its history, and its id is never used again"}
	}
	return []string{"Being deleted for " + t.span(t.s.DeletedAt) + by + t.left() + t.complaint()}
}

func (t situation) running() []string {
	parts := []string{"Running for " + t.span(t.s.StartedAt) + t.reason(sandbox.EventBegin, sandbox.EventStart), "last used " + t.ago(t.s.ActiveAt)}
	if n := t.s.Recovered.Count; n > 0 {
		when := ", "
		if n > 1 {
			when = ", first "
		}
		parts = append(parts, "it came back by itself "+times(n)+when+t.ago(t.s.Recovered.Since))
	}
	return parts
}

func (t situation) terminated(since string) []string {
	how := "Terminated" + since + t.because()
	if end := t.newest(sandbox.EventLost, sandbox.EventEnded); end != nil && end.Event == sandbox.EventLost {
		how = "Its instance was lost" + since + ": " + end.Reason
	}
	if t.s.Synced.Version != "" {
		return []string{how, "its workspace is saved" + t.version(), "the next use brings it back"}
	}
	return []string{how, "its files are gone", "the next use begins anew"}
}

// next describes the next automatic transition.
func (t situation) next() string {
	if t.away != "" {
		return "its machine " + t.away + " does not answer: start the server there, or, if it is gone for good, run 'berth host forget " + t.away + "'"
	}
	lead := t.heldBy()
	if t.s.State == sandbox.Failed && slices.ContainsFunc(t.ahead, func(p sandbox.Upcoming) bool { return p.What == "retry" && p.At.IsZero() }) {
		lead = "the next use tries again; " + lead
	}
	for _, p := range t.ahead {
		switch {
		case p.What == "retry" && p.At.IsZero():
			return "the next use tries again"
		case p.What == "retry":
			return "it is tried again " + t.in(p.At)
		case p.What == "work":
			return "Berth is at work on it"
		case p.What == "probe" || p.What == "save" || p.At.IsZero() || p.What == "stop" && t.s.State == sandbox.Stopped:
			continue
		}
		done := map[string]string{"stop": "stopped", "archive": "archived", "delete": "terminated, after a save,"}[p.What]
		return lead + "it is " + done + " " + t.in(p.At) + " unless it is used"
	}
	if t.s.State == sandbox.Running {
		return lead + "nothing stops it by itself"
	}
	return ""
}

// heldBy lists the kinds of holds that suspend the timers.
func (t situation) heldBy() string {
	var kinds []string
	for _, h := range t.holds {
		if !slices.Contains(kinds, h.Kind) {
			kinds = append(kinds, h.Kind)
		}
	}
	if kinds == nil {
		return ""
	}
	slices.Sort(kinds)
	return "in use (" + strings.Join(kinds, ", ") + "); "
}

// because returns the reason for which a caller or a timer requested the current state.
func (t situation) because() string {
	wish := t.wish()
	if wish == nil || wish.Reason == "" {
		return ""
	}
	why := wish.Reason
	if rest, ok := strings.CutPrefix(why, "not used for "); ok {
		why = "it was not used for " + rest
	} else if rest, ok := strings.CutPrefix(why, "running for "); ok {
		why = "it had been running for " + rest
	} else {
		why = "it was " + why
	}
	if wish.Actor != "" && wish.Actor != "timer" {
		why += " by " + wish.Actor
	}
	return " because " + why
}

// reason returns the reason of the newest of these events.
func (t situation) reason(events ...sandbox.Event) string {
	e := t.newest(events...)
	switch {
	case e == nil || e.Reason == "":
		return ""
	case e.Reason == "first use":
		return ", made for its first use"
	case e.Reason == "used again":
		return ", brought back because it was used again"
	}
	return " (" + e.Reason + ")"
}

// complaint describes the sandbox's failure.
func (t situation) complaint() string {
	f := t.s.Failure
	if f == nil {
		return ""
	}
	text := ": " + strings.TrimSuffix(f.Message, ".")
	if f.Attempts > 1 {
		text += fmt.Sprintf(" (%s in a row)", times(f.Attempts))
	}
	return text
}

func (t situation) left() string {
	if len(t.s.Finalizers) == 0 {
		return ""
	}
	return ", with this left to do: " + strings.Join(t.s.Finalizers, ", ")
}

func (t situation) version() string {
	if v := t.s.Synced.Version; v != "" {
		return " as version " + v
	}
	return ""
}

// wish returns the newest change of the desired state.
func (t situation) wish() *sandbox.Transition { return t.newest("") }

func (t situation) newest(events ...sandbox.Event) *sandbox.Transition {
	i := slices.IndexFunc(t.past, func(e sandbox.Transition) bool { return slices.Contains(events, e.Event) })
	if i < 0 {
		return nil
	}
	return &t.past[i]
}

// since returns the time at which the sandbox entered its current state.
func (t situation) since() time.Time {
	for _, e := range t.past {
		if e.Event != "" && e.To == t.s.State && e.From != e.To {
			return e.At
		}
	}
	return t.s.CreatedAt
}

// ago, in and span format times for people.
func (t situation) ago(at time.Time) string {
	if t.now.Sub(at) < time.Second {
		return "just now"
	}
	return t.span(at) + " ago"
}

func (t situation) in(at time.Time) string {
	if at.Sub(t.now) < time.Second {
		return "now"
	}
	return "in " + spoken(at.Sub(t.now))
}

func (t situation) span(from time.Time) string { return spoken(t.now.Sub(from)) }

// spoken formats a duration in its largest whole unit.
func spoken(d time.Duration) string {
	for _, unit := range []struct {
		name string
		is   time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second}} {
		switch n := int(d / unit.is); {
		case n == 1:
			return "1 " + unit.name
		case n > 1:
			return fmt.Sprintf("%d %ss", n, unit.name)
		}
	}
	return "less than a second"
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// saved describes which files are unsaved, which were restored and which are lost.
func (t situation) saved() (parts []string) {
	s := t.s
	if !s.UnsavedSince.IsZero() {
		part := "files changed " + t.ago(s.UnsavedSince) + " and later are not saved yet"
		if f := s.SaveFailure; f != nil {
			part += ", the last save failed " + t.ago(f.At) + ": " + f.Message
		}
		parts = append(parts, part)
	}
	if r := s.Restored; r.Version != "" && s.Instance != "" {
		parts = append(parts, "its files were restored from version "+r.Version+", saved "+t.ago(r.SavedAt))
	}
	if l := s.Lost; !l.At.IsZero() {
		parts = append(parts, "files changed since "+l.Since.UTC().Format(time.RFC3339)+" were not saved and are lost with an instance that was found gone "+t.ago(l.At))
	}
	return parts
}
