package sandbox

import (
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/testkit"
)

func deleted() Sandbox {
	s := running()
	s.Want, s.DeletedAt = WantGone, t0
	return s
}

// A delete tries to save for so long, then goes on without and says so. A terminate never does: its
// volume is kept.
func TestDeleteGivesUpAFailingSave(t *testing.T) {
	testkit.Proves(t, "O1")
	s := deleted()
	steps, _ := Plan(t0, s, Observation{}, rules)
	wantSteps(t, "at first", steps, "observe")
	steps, _ = Plan(t0, s, isUp, rules)
	wantSteps(t, "seen", steps, "save, mark end archive")
	s.Failure = &Failure{Message: "bucket is on fire", At: t0, Want: WantGone, Attempts: 7}
	steps, _ = Plan(t0.Add(rules.SaveFor-time.Second), s, isUp, rules)
	wantSteps(t, "before the deadline", steps, "save, mark end archive")
	steps, _ = Plan(t0.Add(rules.SaveFor), s, Observation{}, rules)
	wantSteps(t, "after it", steps, "mark end")
	for _, word := range []string{"bucket is on fire", "10m", "given up"} {
		if !strings.Contains(steps[0].Reason, word) {
			t.Errorf("the history will say %q, without %q", steps[0].Reason, word)
		}
	}
	s.DeletedAt = time.Time{}
	steps, _ = Plan(t0.Add(1000*time.Hour), s, isUp, rules)
	wantSteps(t, "a terminate", steps, "save, mark end archive")
	s.Failure = nil
	s.DeletedAt = t0
	steps, _ = Plan(t0.Add(1000*time.Hour), s, isUp, rules)
	wantSteps(t, "a delete that nobody looked at until now", steps, "save, mark end archive")
}

func TestEndsThatNeedNoSave(t *testing.T) {
	testkit.Proves(t, "O1")
	skip, elsewhere := deleted(), deleted()
	skip.SkipSave = true
	elsewhere.Instance = ""
	archive := running()
	archive.State, archive.Want = Stopped, WantArchived
	cannot := rules
	cannot.NoSave = true
	for _, c := range []struct {
		name string
		s    Sandbox
		o    Observation
		p    Policy
		want string
	}{
		{"asked without", skip, Observation{}, rules, "mark end"},
		{"nobody can", deleted(), Observation{}, cannot, "mark end"},
		{"nothing was made", elsewhere, Observation{}, rules, "mark end"},
		{"gone already", deleted(), Observation{Sight: Missing}, rules, "mark end"},
		{"an archive of what is gone", archive, Observation{Sight: Missing}, rules, "mark lost"},
		{"an archive", archive, Observation{Sight: Down}, rules, "save, mark end archive"},
		{"an archive, and nobody can", archive, Observation{}, cannot, ""},
	} {
		steps, _ := Plan(t0, c.s, c.o, c.p)
		wantSteps(t, c.name, steps, c.want)
	}
	skip.Want = WantArchived
	skip.State, skip.DeletedAt = Stopped, time.Time{}
	steps, _ := Plan(t0, skip, Observation{Sight: Down}, rules)
	wantSteps(t, "an archive of what was once asked to go without a save", steps, "save, mark end archive")
}

// Finalizers are done in their order and recorded one by one; the instance goes whatever the list says.
func TestFinalizersGoInOrder(t *testing.T) {
	testkit.Proves(t, "O1")
	s := deleted()
	s.State, s.Finalizers = Terminating, []string{FinalHook, FinalInstance, "previews", "holds"}
	for _, c := range []struct {
		left []string
		o    Observation
		want string
	}{
		{s.Finalizers, Observation{}, "observe"},
		{s.Finalizers, isUp, "final terminate, mark final terminate, destroy i, mark final instance, final previews, mark final previews, final holds, mark final holds, mark ended"},
		{s.Finalizers[1:], Observation{Sight: Broken}, "destroy i, mark final instance, final previews, mark final previews, final holds, mark final holds, mark ended"},
		{s.Finalizers[1:], Observation{Sight: Missing}, "mark final instance, final previews, mark final previews, final holds, mark final holds, mark ended"},
		{s.Finalizers[3:], Observation{Sight: Missing}, "final holds, mark final holds, mark ended"},
		{s.Finalizers[3:], isUp, "final holds, mark final holds, destroy i, mark ended"},
		{nil, isUp, "destroy i, mark ended"},
		{nil, Observation{Sight: Missing}, "mark ended"},
		{[]string{FinalInstance, FinalArchive}, isUp, "destroy i, mark final instance, mark ended"},
	} {
		s.Finalizers = c.left
		steps, _ := Plan(t0, s, c.o, rules)
		wantSteps(t, strings.Join(c.left, ", ")+" with the instance "+string(c.o.Sight), steps, c.want)
	}
}

// Only what was saved before it was ended is an archive, whatever is wanted by then.
func TestArchiveIsWhatWasSaved(t *testing.T) {
	testkit.Proves(t, "O6")
	s := running()
	s.State = Terminating
	noStop := rules
	noStop.NoStop = true
	for _, c := range []struct {
		want   Want
		left   []string
		p      Policy
		expect string
	}{
		{WantArchived, []string{FinalArchive}, rules, "mark archive"},
		{WantArchived, nil, rules, "mark ended"},
		{WantStopped, []string{FinalArchive}, noStop, "mark archive"},
		{WantStopped, []string{FinalArchive}, rules, "mark ended"},
		{WantGone, []string{FinalArchive}, rules, "mark ended"},
		{WantRunning, []string{FinalArchive}, rules, "mark ended"},
	} {
		s.Want, s.Finalizers = c.want, c.left
		steps, _ := Plan(t0, s, Observation{Sight: Missing}, c.p)
		wantSteps(t, string(c.want)+" after "+strings.Join(c.left, ", "), steps, c.expect)
	}
}

// Nobody revives what is ending, and a stray is ended before anything else.
func TestEndingIsNotTurnedBack(t *testing.T) {
	testkit.Proves(t, "O1", "O2")
	s := running()
	s.State, s.Finalizers = Terminating, []string{FinalInstance}
	steps, _ := Plan(t0, s, isUp, rules)
	wantSteps(t, "wanted again", steps, "destroy i, mark final instance, mark ended")
	steps, _ = Plan(t0, s, Observation{Sight: Up, Strays: []InstanceID{"x", "y"}}, rules)
	wantSteps(t, "with strays", steps, "destroy x, destroy y, observe")
}

// Between them, a driver that cannot stop and a server that cannot save leave nothing that could be done
// about an idle sandbox without losing its files. Nothing is.
func TestNothingEndsAVolumeByItself(t *testing.T) {
	testkit.Proves(t, "T6")
	for _, noStop := range []bool{false, true} {
		p := rules
		p.NoStop, p.NoSave = noStop, true
		p.Timers = Timers{Stop: time.Minute, Archive: time.Hour, Delete: 2 * time.Hour, MaxAge: 3 * time.Hour}
		p.ProbeEvery = 0
		for _, state := range States {
			for _, want := range []Want{WantRunning, WantStopped, WantArchived} {
				for _, o := range []Observation{{}, {Sight: Up}, {Sight: Down}, {Sight: Broken}, dumb, noAPI} {
					s := running()
					s.State, s.Want, s.Failure = state, want, &Failure{At: t0, Want: want, Attempts: 1}
					if state == Terminating || state == Stopping && noStop {
						continue // the end was decided; what cannot be stopped is never stopping
					}
					steps, _ := Plan(t0.Add(1000*time.Hour), s, o, p)
					for _, step := range steps {
						if step.Op == OpDestroy || step.Op == OpAsk && step.Want.atLeast(WantArchived) || step.Event == EventEnd {
							t.Errorf("%s, wanted %s, seen %s, no stop %v: %q", state, want, o.Sight, noStop, words(steps))
						}
						if noStop && (step.Op == OpStop || step.Op == OpStart) {
							t.Errorf("%s, wanted %s, seen %s: %q at a driver that cannot", state, want, o.Sight, words(steps))
						}
					}
				}
			}
		}
	}
}
