package fakellm

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"
)

// Script holds rules for answers. The first rule that matches a prompt applies, or Default if none does.
type Script struct {
	Rules   []Rule
	Default []Step
}

// Rule sets the steps of turns whose prompt matches the regular expression Match.
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

// Step is the answer to one call of the model. After a step with tools the agent calls again with the results, and
// the next step answers.
type Step struct {
	Thinking, Text string
	Tools          []Tool
	Usage          *Usage
	Stop           string // stop reason, as in Anthropic's API; empty: the usual one

	Delay time.Duration // pause before the first byte
	Pace  time.Duration // pause between deltas
	Chunk int           // number of runes in a delta; zero: 24

	Cut      int // number of stream events after which the connection is dropped; zero: never
	StreamAt int // number of stream events after which an error event is sent; zero: never
	Faults   int // maximum number of times that Cut and StreamAt apply; zero: no limit

	Hold   string // name of a hold: the answer waits until Release is called with it
	HoldAt int    // number of events before the hold; zero: wait before the first byte

	Error *Fault
}

// Tool is a call of one of the agent's tools. It is given either by Name and Input, which are sent unchanged, or by
// Kind (bash, write, read) with Command, Path and Content, which are sent under the agent's own names.
type Tool struct {
	Name  string
	Input json.RawMessage

	Kind, Command, Path, Content string
}

// Fault makes a call fail with an HTTP status. Times limits how often; zero means always.
type Fault struct {
	Status  int
	Message string
	Times   int
}
