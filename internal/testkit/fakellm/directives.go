package fakellm

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var directive = regexp.MustCompile(`(?s)\[\[\s*([a-z_]+)\b[ \t]*(.*?)\]\]`)

var errArgument = errors.New("bad argument")

// verbs maps the name of each directive to its effect on a step.
var verbs = map[string]func(s *Step, arg string) error{
	"next":  func(*Step, string) error { return nil },
	"say":   func(s *Step, arg string) error { s.Text += arg; return nil },
	"think": func(s *Step, arg string) error { s.Thinking += arg; return nil },
	"bash":  func(s *Step, arg string) error { s.call(Tool{Kind: "bash", Command: arg}); return nil },
	"read":  func(s *Step, arg string) error { s.call(Tool{Kind: "read", Path: arg}); return nil },
	"write": func(s *Step, arg string) error {
		path, text, _ := strings.Cut(arg, "::")
		s.call(Tool{Kind: "write", Path: strings.TrimSpace(path), Content: strings.TrimSpace(text)})
		return nil
	},
	"tool":      (*Step).anyTool,
	"error":     (*Step).fail,
	"delay":     func(s *Step, arg string) (err error) { s.Delay, err = time.ParseDuration(arg); return err },
	"pace":      func(s *Step, arg string) (err error) { s.Pace, err = time.ParseDuration(arg); return err },
	"chunk":     func(s *Step, arg string) error { return positive(arg, &s.Chunk) },
	"cut":       func(s *Step, arg string) error { return positive(arg, &s.Cut) },
	"sse_error": func(s *Step, arg string) error { return positive(arg, &s.StreamAt) },
	"faults":    func(s *Step, arg string) error { return positive(arg, &s.Faults) },
	"hold":      (*Step).hold,
	"usage":     (*Step).use,
	"stop":      func(s *Step, arg string) error { s.Stop = arg; return nil },
}

// toolVerbs lists the verbs that may follow a tool's call in the same step. Any other verb begins the next step.
var toolVerbs = map[string]bool{"bash": true, "read": true, "write": true, "tool": true, "usage": true}

// directives parses the steps in a prompt. It returns nil if the prompt has no directives.
func directives(prompt string) (steps []Step, err error) {
	var now Step
	used := false
	flush := func() {
		if used {
			steps = append(steps, now)
		}
		now, used = Step{}, false
	}
	for _, m := range directive.FindAllStringSubmatch(prompt, -1) {
		verb, arg := m[1], strings.TrimSpace(m[2])
		do, known := verbs[verb]
		if !known {
			return nil, fmt.Errorf("directive [[%s]]: unknown verb", verb)
		}
		if verb == "next" || len(now.Tools) > 0 && !toolVerbs[verb] {
			flush()
		}
		if err := do(&now, arg); err != nil {
			return nil, fmt.Errorf("directive [[%s %s]]: %w", verb, arg, err)
		}
		used = verb != "next"
	}
	flush()
	return steps, nil
}

func (s *Step) call(t Tool) { s.Tools = append(s.Tools, t) }

func (s *Step) anyTool(arg string) error {
	name, input, _ := strings.Cut(arg, " ")
	if input = strings.TrimSpace(input); input == "" {
		input = "{}"
	}
	if !json.Valid([]byte(input)) {
		return errArgument
	}
	s.call(Tool{Name: name, Input: json.RawMessage(input)})
	return nil
}

func (s *Step) fail(arg string) error {
	arg, message, _ := strings.Cut(arg, " :: ")
	status, times, limited := strings.Cut(arg, " x")
	f := &Fault{Message: message}
	if err := positive(status, &f.Status); err != nil || f.Status < 400 || f.Status > 599 {
		return errArgument
	}
	if limited {
		if err := positive(times, &f.Times); err != nil {
			return err
		}
	}
	s.Error = f
	return nil
}

func (s *Step) hold(arg string) error {
	name, at, later := strings.Cut(arg, "@")
	if name == "" {
		return errArgument
	}
	s.Hold = name
	if later {
		return positive(at, &s.HoldAt)
	}
	return nil
}

func (s *Step) use(arg string) error {
	u := &Usage{}
	to := map[string]*int{"in": &u.Input, "out": &u.Output, "cw": &u.CacheCreate, "cr": &u.CacheRead}
	for _, field := range strings.Fields(arg) {
		name, value, _ := strings.Cut(field, "=")
		n, err := strconv.Atoi(value)
		if err != nil || to[name] == nil {
			return errArgument
		}
		*to[name] = n
	}
	s.Usage = u
	return nil
}

func positive(arg string, to *int) error {
	n, err := strconv.Atoi(strings.TrimSpace(arg))
	if err != nil || n < 1 {
		return errArgument
	}
	*to = n
	return nil
}
