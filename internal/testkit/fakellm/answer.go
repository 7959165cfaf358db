package fakellm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// answer is a step with all placeholders and tools resolved, ready to be sent.
type answer struct {
	thinking, text string
	tools          []Tool // with name and input
	usage          Usage
	stop           string
	step           Step
	rule           string
}

// defaultUsage returns the default usage of a call after the given number of calls. The usage differs for each call, so
// that tests notice a sum that skips or repeats a call.
func defaultUsage(calls int) Usage {
	u := Usage{Input: 100 + calls, Output: 20 + calls, CacheCreate: 1000}
	if calls > 0 {
		u.CacheCreate, u.CacheRead = 10*calls, 1000+calls
	}
	return u
}

var sideUsage = Usage{Input: 7, Output: 3}

// choose returns the answer to a call.
func (s *Server) choose(c *call) (*answer, error) {
	if c.isSide() {
		return &answer{text: "fake side answer", usage: sideUsage, stop: "end_turn", rule: "side"}, nil
	}
	steps, rule, err := s.steps(c.prompt())
	if err != nil {
		return nil, err
	}
	a := &answer{rule: rule, step: Step{Text: "done"}, usage: defaultUsage(c.total), stop: "end_turn"}
	if c.turn < len(steps) {
		a.step = steps[c.turn]
	}
	words := strings.NewReplacer(
		"{{turn}}", strconv.Itoa(len(c.prompts)), "{{calls}}", strconv.Itoa(c.total), "{{model}}", c.model,
		"{{prompt}}", c.prompt(), "{{first_prompt}}", c.first(), "{{last_result}}", strings.TrimSpace(c.result))
	a.text, a.thinking = words.Replace(a.step.Text), words.Replace(a.step.Thinking)
	for _, t := range a.step.Tools {
		known, err := resolve(t, c.tools)
		if err != nil {
			return nil, err
		}
		a.tools = append(a.tools, known)
	}
	if a.text == "" && a.thinking == "" && len(a.tools) == 0 {
		a.text = "ok"
	}
	if a.step.Usage != nil {
		a.usage = *a.step.Usage
	}
	if len(a.tools) > 0 {
		a.stop = "tool_use"
	}
	if a.step.Stop != "" {
		a.stop = a.step.Stop
	}
	return a, nil
}

// steps returns the steps of the turn that a prompt starts, and the name of the rule that they come from.
func (s *Server) steps(prompt string) (steps []Step, rule string, err error) {
	if steps, err = directives(prompt); steps != nil || err != nil {
		return steps, "directives", err
	}
	s.mu.Lock()
	script := s.script
	s.mu.Unlock()
	if script != nil {
		for i, r := range script.Rules {
			if r.match.MatchString(prompt) {
				return r.Steps, fmt.Sprintf("rule %d", i), nil
			}
		}
		if len(script.Default) > 0 {
			return script.Default, "default", nil
		}
	}
	return []Step{{Text: "fake reply to: " + firstRunes(prompt, 120)}}, "echo", nil
}

func firstRunes(s string, runes int) string {
	if r := []rune(s); len(r) > runes {
		return string(r[:runes])
	}
	return s
}

// kinds lists, for each kind of tool, the names that agents use.
var kinds = map[string][]string{
	"bash": {
		"bash", "shell", "shell_command", "exec_command", "local_shell", "run_terminal_cmd", "run_shell_command",
		"execute_command", "run_commands", "run_terminal_command", "terminal",
	},
	"write": {"write", "write_file", "create_file", "create", "write_to_file", "editor", "save-file"},
	"read":  {"read", "read_file", "view"},
}

// resolve returns the tool with a name and input that the agent offers. A tool with a kind gets the agent's own name
// and argument names.
func resolve(t Tool, tools []offered) (Tool, error) {
	if t.Kind == "" {
		if len(t.Input) == 0 {
			t.Input = json.RawMessage("{}")
		}
		return t, nil
	}
	for _, name := range kinds[t.Kind] {
		for _, o := range tools {
			if strings.EqualFold(o.name, name) {
				input, err := json.Marshal(o.arguments(t))
				return Tool{Name: o.name, Input: input}, err
			}
		}
	}
	if t.Kind == "write" { // some agents write files with their shell
		return resolve(Tool{Kind: "bash", Command: "printf %s '" + strings.ReplaceAll(t.Content, "'", `'\''`) + "' >'" + t.Path + "'"}, tools)
	}
	var names []string
	for _, o := range tools {
		names = append(names, o.name)
	}
	slices.Sort(names)
	return t, fmt.Errorf("no tool of kind %q among those offered: %s", t.Kind, strings.Join(names, ", "))
}

// arguments returns the arguments of a call under the names that the offered tool uses.
func (o offered) arguments(t Tool) map[string]any {
	in := map[string]any{}
	set := func(value any, names ...string) {
		i := max(0, slices.IndexFunc(names, func(n string) bool { return o.props[n] != "" }))
		in[names[i]] = value
	}
	switch t.Kind {
	case "bash":
		switch {
		case o.props["command"] == "array", o.props["command"] == "any" && strings.EqualFold(o.name, "shell"):
			in["command"] = []string{"bash", "-lc", t.Command}
		case o.props["commands"] == "array":
			in["commands"] = []string{t.Command}
		default:
			set(t.Command, "command", "cmd")
		}
		if o.props["description"] != "" {
			in["description"] = "scripted command"
		}
	case "write":
		set(t.Path, "file_path", "filePath", "path")
		set(t.Content, "content", "contents", "file_text", "text")
	case "read":
		set(t.Path, "file_path", "filePath", "path")
	}
	return in
}
