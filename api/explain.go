package api

import "time"

// Explanation has the reasons for a sandbox's state and its next planned steps.
type Explanation struct {
	Sandbox Sandbox      `json:"sandbox"`
	Summary string       `json:"summary" doc:"One sentence for people"`
	Because []Transition `json:"because" doc:"The events that led to the current state, newest first"`
	Ahead   []Prospect   `json:"ahead" doc:"Scheduled transitions if the sandbox is not used, the nearest first"`
	Holds   []Hold       `json:"holds,omitempty" doc:"Holds that suspend the timers"`
	Left    []string     `json:"left,omitempty" doc:"Steps that are left before it is gone"`
	Keeps   []string     `json:"keeps" doc:"Which files survive which transition"`

	// Instance is the driver's current report about the instance. It is empty for an instance on another server's
	// machine.
	Instance  []string `json:"instance,omitempty" doc:"The driver's status of the instance: how the disk limit is enforced, and problems"`
	Unlimited []string `json:"unlimited,omitempty" doc:"Limits that the server's machine cannot enforce, with the reasons"`
}

// Prospect is a future transition of a sandbox that happens automatically. Off has the reason if it never happens.
type Prospect struct {
	What string     `json:"what" enum:"stop,archive,delete,probe,retry,work"`
	At   *time.Time `json:"at,omitempty" doc:"The time; absent if it does not happen automatically"`
	Why  string     `json:"why"`
	Off  string     `json:"off,omitempty" doc:"The reason why it never happens"`
}

// Hold is a use of the sandbox that suspends its timers, such as a turn, a terminal or traffic.
type Hold struct {
	Kind  string    `json:"kind"`
	Until time.Time `json:"until"`
}
