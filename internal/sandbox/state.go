package sandbox

import (
	"fmt"
	"slices"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// State is the current state of a sandbox.
type State string

// The states of a sandbox.
const (
	Pending     State = "pending"     // recorded, and never started
	Creating    State = "creating"    // the driver creates an instance, and the workspace is restored
	Running     State = "running"     // the instance runs and is healthy
	Unhealthy   State = "unhealthy"   // a health check failed, and recovery is under way
	Stopping    State = "stopping"    // the instance is being stopped
	Stopped     State = "stopped"     // the instance is stopped, and its files are kept
	Starting    State = "starting"    // a stopped or archived sandbox is starting again
	Archived    State = "archived"    // instance and volume are gone; the newest version is in the object store
	Terminating State = "terminating" // instance and volume are being ended
	Terminated  State = "terminated"  // instance and volume are gone; the next use revives it unless deleted
	Failed      State = "error"       // recovery gave up; the next use tries again
)

// States lists every state.
var States = []State{Pending, Creating, Running, Unhealthy, Stopping, Stopped, Starting, Archived, Terminating, Terminated, Failed}

// Want is the desired state of a sandbox.
type Want string

// The desired states.
const (
	WantRunning  Want = "running"
	WantStopped  Want = "stopped"
	WantArchived Want = "archived"
	WantGone     Want = "gone"
)

// Wants lists all desired states.
var Wants = []Want{WantRunning, WantStopped, WantArchived, WantGone}

// Satisfied reports whether a sandbox in state s satisfies w. A state that keeps less than w allows also satisfies
// it: for example, a sandbox that was never started counts as stopped.
func (w Want) Satisfied(s State) bool { return slices.Contains(satisfied[w], s) }

// satisfied lists the states that satisfy each desired state.
var satisfied = map[Want][]State{
	WantRunning:  {Running},
	WantStopped:  {Stopped, Archived, Terminated, Pending},
	WantArchived: {Archived, Terminated, Pending},
	WantGone:     {Terminated},
}

// Event moves a sandbox from one state to another.
type Event string

// The events. Each is recorded in the sandbox's history with its time, reason and actor.
const (
	EventBegin   Event = "begin"   // a Create is about to be sent, under a new incarnation
	EventStart   Event = "start"   // a Start of the recorded instance is about to be sent
	EventReady   Event = "ready"   // the instance runs, and its workspace is restored
	EventSick    Event = "sick"    // a health check failed
	EventStop    Event = "stop"    // a Stop is about to be sent
	EventHalted  Event = "halted"  // the instance is stopped, and its files are kept
	EventArchive Event = "archive" // the workspace is saved, and instance and volume are gone
	EventLost    Event = "lost"    // the driver confirmed that the instance is gone
	EventFail    Event = "fail"    // the engine gave up; the failure has the reason
	EventEnd     Event = "end"     // a Destroy is about to be sent
	EventFinal   Event = "final"   // a finalizer is done
	EventEnded   Event = "ended"   // instance and volume are gone
)

// Events lists every event.
var Events = []Event{EventBegin, EventStart, EventReady, EventSick, EventStop, EventHalted, EventArchive, EventLost, EventFail, EventEnd, EventFinal, EventEnded}

// matrix lists all legal transitions. All others are refused.
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
		return "", fault.Errorf(fmt.Sprintf("apply %s", ev), api.CodeIllegalTransition, "a sandbox that is %s cannot %s", from, ev)
	}
	return to, nil
}
