package sandbox

import (
	"fmt"
	"slices"

	"github.com/berthdev/berth/api"
)

// State is where a sandbox is.
type State string

// The states of a sandbox.
const (
	Pending     State = "pending"     // recorded, nothing started
	Creating    State = "creating"    // the driver is making an instance, the workspace is being restored
	Running     State = "running"     // healthy
	Unhealthy   State = "unhealthy"   // a health check failed; recovery acts
	Stopping    State = "stopping"    // the instance is being stopped
	Stopped     State = "stopped"     // no processes, files kept
	Starting    State = "starting"    // a stopped or archived one is coming back
	Archived    State = "archived"    // instance and volume gone, newest version in the object store
	Terminating State = "terminating" // instance and volume are being ended
	Terminated  State = "terminated"  // instance and volume gone; the next use revives it unless deleted
	Failed      State = "error"       // recovery gave up; the next use tries again
)

// States lists every state.
var States = []State{Pending, Creating, Running, Unhealthy, Stopping, Stopped, Starting, Archived, Terminating, Terminated, Failed}

// Want is where a sandbox is asked to be.
type Want string

// What can be asked of a sandbox.
const (
	WantRunning  Want = "running"
	WantStopped  Want = "stopped"
	WantArchived Want = "archived"
	WantGone     Want = "gone"
)

// Wants lists everything that can be asked.
var Wants = []Want{WantRunning, WantStopped, WantArchived, WantGone}

// Satisfied reports whether a sandbox in state s is where w asks it to be. A sandbox with less than
// was asked to be kept satisfies a wish for less: one that was never made is as good as stopped.
func (w Want) Satisfied(s State) bool { return slices.Contains(satisfied[w], s) }

var satisfied = map[Want][]State{
	WantRunning:  {Running},
	WantStopped:  {Stopped, Archived, Terminated, Pending},
	WantArchived: {Archived, Terminated, Pending},
	WantGone:     {Terminated},
}

// Event is what moves a sandbox from one state to another.
type Event string

// The events. Each is recorded in the sandbox's history with its time, reason and actor.
const (
	EventBegin   Event = "begin"   // a Create is about to be sent, under a new incarnation
	EventStart   Event = "start"   // a Start of the present instance is about to be sent
	EventReady   Event = "ready"   // the instance runs, workspace in place
	EventSick    Event = "sick"    // a health check failed
	EventStop    Event = "stop"    // a Stop is about to be sent
	EventHalted  Event = "halted"  // the instance is stopped, files kept
	EventArchive Event = "archive" // nothing is left at the driver, and it was saved
	EventLost    Event = "lost"    // the driver confirmed that the instance is gone
	EventFail    Event = "fail"    // gave up; the failure says why
	EventEnd     Event = "end"     // a Destroy is about to be sent
	EventFinal   Event = "final"   // a finalizer is done
	EventEnded   Event = "ended"   // nothing is left at the driver
)

// Events lists every event.
var Events = []Event{EventBegin, EventStart, EventReady, EventSick, EventStop, EventHalted, EventArchive, EventLost, EventFail, EventEnd, EventFinal, EventEnded}

// matrix is every legal transition. What it does not name is refused.
var matrix = map[State]map[Event]State{
	Pending:     {EventBegin: Creating, EventEnd: Terminating},
	Creating:    {EventBegin: Creating, EventReady: Running, EventLost: Terminated, EventFail: Failed, EventEnd: Terminating},
	Running:     {EventSick: Unhealthy, EventStop: Stopping, EventHalted: Stopped, EventLost: Terminated, EventFail: Failed, EventEnd: Terminating},
	Unhealthy:   {EventReady: Running, EventStart: Starting, EventStop: Stopping, EventHalted: Stopped, EventLost: Terminated, EventFail: Failed, EventEnd: Terminating},
	Stopping:    {EventHalted: Stopped, EventLost: Terminated, EventEnd: Terminating},
	Stopped:     {EventStart: Starting, EventLost: Terminated, EventFail: Failed, EventEnd: Terminating},
	Starting:    {EventBegin: Starting, EventStart: Starting, EventReady: Running, EventStop: Stopping, EventHalted: Stopped, EventLost: Terminated, EventFail: Failed, EventEnd: Terminating},
	Archived:    {EventBegin: Starting, EventEnd: Terminating},
	Terminating: {EventFinal: Terminating, EventEnded: Terminated, EventArchive: Archived},
	Terminated:  {EventBegin: Creating},
	Failed:      {EventBegin: Creating, EventStart: Starting, EventStop: Stopping, EventHalted: Stopped, EventLost: Terminated, EventFail: Failed, EventEnd: Terminating},
}

// Next returns the state that the event leads to, or an Error of code illegal_transition.
func Next(from State, ev Event) (State, error) {
	to, ok := matrix[from][ev]
	if !ok {
		return "", Errorf(fmt.Sprintf("apply %s", ev), api.CodeIllegalTransition, "a sandbox that is %s cannot %s", from, ev)
	}
	return to, nil
}
