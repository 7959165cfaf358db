package fakellm

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"
)

// Script answers prompts by rule: the first that matches, else the default.
type Script struct {
	Rules   []Rule
	Default []Step
}

// Rule is the steps of the turns whose prompt matches a regular expression.
type Rule struct {
	Match string
	Steps []Step

	match *regexp.Regexp
}

func (s *Script) compile() error {
	for i := range s.Rules {
		match, err := regexp.Compile(s.Rules[i].Match)
		if err != nil {
			return fmt.Errorf("rule %d: %w", i, err)
		}
		s.Rules[i].match = match
	}
	return nil
}

// Step is the answer to one call of the model. One with tools makes the agent call back with the results,
// which takes the next step.
type Step struct {
	Thinking, Text string
	Tools          []Tool
	Usage          *Usage
	Stop           string // the reason for the end, in Anthropic's words

	Delay time.Duration // before the first byte
	Pace  time.Duration // between deltas
	Chunk int           // runes in a delta

	Cut      int // drop the connection after so many events of the stream
	StreamAt int // send an error in the stream after so many events
	Faults   int // how often the two apply; zero: always

	Hold   string // wait for Release
	HoldAt int    // after so many events; zero: before the first byte

	Error *Fault
}

// Tool is a call of one of the agent's tools: by its name and input as they are, or by its kind (bash, write,
// read), under the agent's own names for it and for its arguments.
type Tool struct {
	Name  string
	Input json.RawMessage

	Kind, Command, Path, Content string
}

// Fault makes a call fail before anything is sent, always or so many times.
type Fault struct {
	Status  int
	Message string
	Times   int
}
