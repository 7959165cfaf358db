package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	slackgo "github.com/slack-go/slack"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/slack/mrkdwn"
)

// Limits of a message. Slack allows 3,000 characters in a section, and about 13,000 in all blocks.
const (
	sectionText  = 2_900
	mostSections = 4
	fallbackText = 300
	mostTasks    = 5 // calls of tools that are shown at once
	mostMessages = 20
)

// view is a turn as Slack shows it. It is a function of the turn's events.
type view struct {
	texts  []string        // complete texts
	open   strings.Builder // the text that is being written
	tasks  []task
	status string
	end    api.TurnEvent
}

// task is a call of a tool.
type task struct {
	id, title string
	state     string
}

// States of a task.
const (
	taskRuns   = "⏳"
	taskDone   = "✓"
	taskFailed = "✗"
)

func newView() *view { return &view{} }

// add adds the next event. Events of sub-agents are not shown.
func (v *view) add(e api.TurnEvent) {
	if e.Parent != "" {
		return
	}
	switch e.Type {
	case api.EventTextDelta:
		v.status = ""
		v.open.WriteString(e.Text)
	case api.EventText:
		v.open.Reset()
		v.keep(e.Text)
	case api.EventToolCall:
		v.flush()
		v.status = ""
		v.tasks = append(v.tasks, task{e.ID, taskTitle(e.Name, e.Input), taskRuns})
	case api.EventToolResult:
		for i := range v.tasks {
			if v.tasks[i].id == e.ID {
				v.tasks[i].state = taskDone
				if e.Error {
					v.tasks[i].state = taskFailed
				}
			}
		}
	case api.EventStatus:
		v.status = e.Message
		if v.status == "" {
			v.status = strings.ReplaceAll(e.Status, "_", " ")
		}
	case api.EventTurnFinished, api.EventResync:
		v.flush()
		v.end = e
	}
}

func (v *view) flush() {
	v.keep(v.open.String())
	v.open.Reset()
}

func (v *view) keep(text string) {
	if strings.TrimSpace(text) != "" {
		v.texts = append(v.texts, text)
	}
}

func (v *view) hasText() bool { return len(v.texts) > 0 || v.open.Len() > 0 }

// text returns all that was written so far, in Markdown.
func (v *view) text() string {
	all := v.texts
	if open := v.open.String(); strings.TrimSpace(open) != "" {
		all = append(all[:len(all):len(all)], open)
	}
	return strings.Join(all, "\n\n")
}

// taskTitle describes a call in one line: the tool and the first of its arguments that says most.
func taskTitle(name string, input json.RawMessage) string {
	var args map[string]any
	_ = json.Unmarshal(input, &args)
	title := name
	for _, key := range []string{"description", "command", "cmd", "path", "file_path", "filePath", "pattern", "query", "url", "prompt"} {
		if s, ok := args[key].(string); ok && s != "" {
			title += " " + s
			break
		}
	}
	return clip(oneLine(title), 120)
}

func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }), " ")
}

// clip shortens a text to n characters.
func clip(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return s
}

func escape(s string) string { return mrkdwn.Escape(s) }

// sections returns a text in Slack's format as blocks.
func sections(text string) (blocks []slackgo.Block) {
	for _, part := range mrkdwn.Split(text, sectionText) {
		b := slackgo.NewSectionBlock(slackgo.NewTextBlockObject(slackgo.MarkdownType, part, false, false), nil, nil)
		b.Expand = true
		blocks = append(blocks, b)
	}
	return blocks
}

// note returns a line in small letters.
func note(text string) slackgo.Block {
	return slackgo.NewContextBlock("", slackgo.NewTextBlockObject(slackgo.MarkdownType, text, false, false))
}

// working is the answer before anything is known.
func working(b buttons) content {
	return content{text: "Working…", blocks: append(sections("_Working…_"), b.running())}
}

// live returns the message while the turn runs, and a text that differs if the message does. A long text is shown from
// its end.
func (v *view) live(b buttons) (c content, mark string) {
	text := mrkdwn.Convert(v.text())
	blocks := sections(text)
	switch {
	case text == "":
		blocks = sections("_Working…_")
	case len(blocks) > mostSections:
		blocks = append([]slackgo.Block{note("… the beginning follows at the end")}, blocks[len(blocks)-mostSections:]...)
	}
	lines := v.taskLines()
	if v.status != "" {
		lines += "\n" + escape(clip(oneLine(v.status), 200))
	}
	if lines = strings.TrimSpace(lines); lines != "" {
		blocks = append(blocks, note(lines))
	}
	return content{text: first(text, "Working…"), blocks: append(blocks, b.running())}, text + "\x00" + lines
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// taskLines shows the newest calls of tools.
func (v *view) taskLines() string {
	from := max(0, len(v.tasks)-mostTasks)
	var lines []string
	if from > 0 {
		lines = append(lines, fmt.Sprintf("%d earlier steps", from))
	}
	for _, t := range v.tasks[from:] {
		lines = append(lines, t.state+" "+escape(t.title))
	}
	return strings.Join(lines, "\n")
}

// final returns the messages of the answer.
func (v *view) final(b buttons, dropped []string) (all []content) {
	text := mrkdwn.Convert(v.text())
	switch {
	case v.end.Status == api.TurnCompleted && text == "":
		text = "_Done, without a word._"
	case v.end.Status == api.TurnCancelled:
		text = strings.TrimSpace(text + "\n\n_Stopped._")
	case v.end.Type == api.EventResync:
		text = strings.TrimSpace(text + "\n\n_The rest of this answer is no longer kept._")
	case v.end.Status != api.TurnCompleted:
		text = strings.TrimSpace(text + "\n\n" + failureText("This failed", fault.Errorf("", v.end.Code, "%s", v.end.Message)))
	}
	if len(dropped) > 0 {
		text += "\n\n_Not attached:_ " + escape(strings.Join(dropped, "; "))
	}
	if len(v.end.Warnings) > 0 {
		text += "\n\n_Note:_ " + escape(clip(oneLine(strings.Join(v.end.Warnings, "; ")), 1_000))
	}
	blocks := sections(text)
	for len(blocks) > 0 && len(all) < mostMessages {
		n := min(len(blocks), mostSections)
		all = append(all, content{text: text, blocks: blocks[:n:n]})
		blocks = blocks[n:]
	}
	last := &all[len(all)-1]
	if len(blocks) > 0 {
		last.blocks = append(last.blocks, note("The answer is longer than Slack can show. Ask me to write it to a file."))
	}
	if sum := v.summary(); sum != "" {
		last.blocks = append(last.blocks, note(sum))
	}
	last.blocks = append(last.blocks, b.ended())
	return all
}

// summary says what the turn took.
func (v *view) summary() string {
	var parts []string
	if n := len(v.tasks); n > 0 {
		parts = append(parts, plural(n, "step"))
	}
	if u := v.end.Usage; u != nil && u.InputTokens+u.OutputTokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens", u.InputTokens+u.OutputTokens))
	}
	if v.end.CostUSD > 0 {
		parts = append(parts, fmt.Sprintf("$%.2f", v.end.CostUSD))
	}
	return strings.Join(parts, " · ")
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// failureText says in plain words what failed, why, and what to do.
func failureText(what string, err error) string {
	text := "*" + what + ".* " + escape(clip(oneLine(sentence(err)), 1_500))
	if code := fault.CodeOf(err); code != "" {
		text += " (`" + escape(string(code)) + "`)"
	}
	return text
}

// sentence returns an error's message with what to do about it.
func sentence(err error) string {
	text := err.Error()
	var ours *fault.Error
	hint := fault.CodeOf(err).Info().Hint
	if errors.As(err, &ours) {
		text = ours.Err.Error()
		hint = first(ours.Hint, hint)
	}
	if hint != "" {
		text = strings.TrimSuffix(text, ".") + ". " + hint
	}
	return text
}
