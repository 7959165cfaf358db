package sandbox

import (
	"fmt"
	"time"

	"github.com/berthdev/berth/api"
)

// planHealth plans for a sandbox whose row names a running instance.
func planHealth(now time.Time, s Sandbox, o Observation, p Policy) (steps []Step, due time.Time) {
	switch o.Sight {
	case Missing:
		return recovery(now, s, p, EventLost, goneReason(o)), due
	case Down:
		return recovery(now, s, p, EventHalted, "found stopped"), due
	case Broken:
		return broken(now, s, o), due
	}
	next := probeDue(s, p)
	switch {
	case o.Sight == Unasked && (next.IsZero() || s.State == Running && now.Before(next)):
		return nil, due
	case o.Sight == Unasked && now.Before(next):
		return nil, next
	case o.Sight == Unasked:
		return observe("health check"), due
	case o.Ill == Well && s.State == Unhealthy:
		return mark(EventReady, "healthy again"), due
	case o.Ill == Well:
		return nil, due
	case s.State == Running:
		return recovery(now, s, p, EventSick, "health check failed: "+healthProblem(o)), due
	case now.Before(next):
		return nil, next
	case p.NoRecover && !usedSince(s):
		return giveUp(now, s, api.CodeUnhealthy, "health check failed again: "+healthProblem(o)+"; "+noRecovery), due
	case o.Ill == AgentIsIll:
		return []Step{{Op: OpHeal, Reason: healthProblem(o)}, {Op: OpMark, Event: EventReady, Reason: "the agent's server was restarted"}}, due
	}
	return restart(now, s, o, p, "health check failed again: "+healthProblem(o)), due
}

// probeDue returns the time of the next probe of a running instance; zero: only on request. A failed probe is
// repeated after ProbeAgain, even if ProbeEvery is zero: a single failure proves little.
func probeDue(s Sandbox, p Policy) time.Time {
	switch {
	case s.State == Unhealthy && s.Failure != nil:
		return s.Failure.At.Add(p.ProbeAgain)
	case s.State == Unhealthy:
		return s.ProbedAt.Add(p.ProbeAgain)
	case s.State == Running && p.ProbeEvery > 0:
		return s.ProbedAt.Add(jitter(p.ProbeEvery, s.ID))
	}
	return time.Time{}
}

const noRecovery = "this server recovers nothing by itself"

// usedSince reports whether the sandbox was used after it became unhealthy. Such a use requests the recovery.
func usedSince(s Sandbox) bool { return s.Failure != nil && s.ActiveAt.After(s.Failure.At) }

// recovery records the event by which a sandbox left the running state without a request, and counts the recovery.
// If there were too many recoveries, or recovery is off, the sandbox goes to error instead. EventSick is recorded also
// when recovery is off: it means only one failed probe.
func recovery(now time.Time, s Sandbox, p Policy, ev Event, reason string) []Step {
	count, open := p.Breaker.add(s.Recovered, now)
	switch {
	case p.NoRecover && (s.State == Running && ev != EventSick || s.State == Unhealthy && !usedSince(s)):
		return giveUp(now, s, api.CodeUnhealthy, reason+"; "+noRecovery)
	case s.State != Running:
		return mark(ev, reason) // not counted: EventSick counted this recovery, or a use requested it
	case open:
		return giveUp(now, s, api.CodeUnhealthy, fmt.Sprintf("%s; it was recovered %d times within %s, which did not last", reason, p.Breaker.Attempts, brief(p.Breaker.Window)))
	}
	step := Step{Op: OpMark, Event: ev, Reason: reason, Recovered: &count}
	if ev == EventSick {
		step.Failure = &Failure{Code: api.CodeUnhealthy, Message: reason, At: now, Want: s.Want, Attempts: 1}
	}
	return []Step{step}
}

// planUnseen plans for an instance whose state is unknown. The instance may still work, so the engine waits unless
// the template selects another way. While the driver does not answer at all, no replacement can be created.
func planUnseen(now time.Time, s Sandbox, o Observation, p Policy) ([]Step, time.Time) {
	_, cannot := Next(s.State, EventLost)
	act := latest(o.Since, s.ProbedAt).Add(p.UnreachableAfter)
	chosen := p.Unreachable == UnseenReplace && o.Sight == Unclear || p.Unreachable == UnseenFence
	if !chosen || cannot != nil || s.Want != WantRunning || s.Instance == "" || o.Since.IsZero() || now.Before(act) {
		return nil, now.Add(jitter(p.RetryEvery, s.ID))
	}
	reason := fmt.Sprintf("not reachable for %s, and the template says %s", brief(p.UnreachableAfter), p.Unreachable)
	if o.Detail != "" {
		reason += ": " + o.Detail
	}
	steps := recovery(now, s, p, EventLost, reason)
	if p.Unreachable == UnseenFence && steps[0].Event == EventLost {
		steps = append([]Step{{Op: OpDestroy, Instance: s.Instance, Reason: reason}}, steps...)
	}
	return steps, time.Time{}
}

// goneReason returns the reason in the history for a lost instance.
func goneReason(o Observation) string {
	reason := "the driver confirmed that the instance is gone"
	if o.Detail != "" {
		reason += ": " + o.Detail
	}
	return reason
}

// healthProblem describes the health problem of an instance in words.
func healthProblem(o Observation) string {
	what := "nothing inside answers"
	if o.Ill == AgentIsIll {
		what = "the agent's server does not answer"
	}
	if o.Detail != "" {
		what += ": " + o.Detail
	}
	return what
}

// broken keeps an instance that cannot run and puts the sandbox in error, for an operator: the instance's files may be
// the only copy.
func broken(now time.Time, s Sandbox, o Observation) []Step {
	return giveUp(now, s, api.CodeDriverRefused, "the instance can never run again: "+o.Detail)
}
