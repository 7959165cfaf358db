package api

import "time"

// Explanation is why a sandbox is as it is, and what will happen to it.
type Explanation struct {
	Sandbox Sandbox      `json:"sandbox"`
	Summary string       `json:"summary" doc:"One sentence for people"`
	Because []Transition `json:"because" doc:"What led to the present state, newest first"`
	Ahead   []Prospect   `json:"ahead" doc:"What will happen by itself if nobody uses it, the nearest first"`
	Holds   []Hold       `json:"holds,omitempty" doc:"What keeps timers away"`
	Left    []string     `json:"left,omitempty" doc:"What is still to be done before it has ended"`
	Keeps   []string     `json:"keeps" doc:"What of its files survives what"`
}

// Prospect is something that will happen to a sandbox by itself, or would if nothing kept it away.
type Prospect struct {
	What string     `json:"what" enum:"stop,archive,delete,probe,retry,work"`
	At   *time.Time `json:"at,omitempty" doc:"Absent: not by itself"`
	Why  string     `json:"why"`
	Off  string     `json:"off,omitempty" doc:"What keeps it away for good"`
}

// Hold keeps timers away from a sandbox: a turn, a terminal, traffic.
type Hold struct {
	Kind  string    `json:"kind"`
	Until time.Time `json:"until"`
}
