package tool

import (
	"context"
	"fmt"

	"github.com/berthdev/berth/internal/fault"
)

// matching is the search in one file.
type matching struct {
	*grepping
	name string

	hits   int
	before []numbered // the last lines, for the context before a match
	after  int        // lines still to show after the last match
	last   int64      // the number of the line that was shown last
}

type numbered struct {
	number int64
	text   string
}

func (m *matching) run(ctx context.Context, lines *lines) error {
	for lines.next() {
		if (lines.number%256 == 0 || lines.size > shortLine) && ctx.Err() != nil {
			break
		}
		at, ok := search(ctx, m.re, lines.text)
		if ok {
			m.hits++
		}
		if err := m.line(lines, at, ok); err != nil {
			return err
		}
		if ok && m.args.OutputMode != modeContent && m.args.OutputMode != modeCount {
			break // the file's name is shown after one match
		}
	}
	if m.hits == 0 || m.args.OutputMode == modeContent {
		return ctx.Err()
	}
	text := m.name
	if m.args.OutputMode == modeCount {
		text = fmt.Sprintf("%s:%d", m.name, m.hits)
	}
	if err := m.room(); err != nil {
		return err
	}
	return m.show(text)
}

// line shows a line that matches or is in the context of a match.
func (m *matching) line(lines *lines, at int, matches bool) error {
	switch {
	case m.args.OutputMode != modeContent:
		return nil
	case matches:
		return m.match(lines, at)
	case m.after > 0:
		m.after--
		return m.near(numbered{lines.number, m.excerpt(lines, 0)})
	case m.args.Context > 0:
		if len(m.before) == m.args.Context {
			m.before = m.before[1:]
		}
		m.before = append(m.before, numbered{lines.number, m.excerpt(lines, 0)})
	}
	return nil
}

func (m *matching) match(lines *lines, at int) error {
	if err := m.room(); err != nil {
		return err
	}
	first := lines.number
	if len(m.before) > 0 {
		first = m.before[0].number
	}
	if m.args.Context > 0 && m.page.text.Len() > 0 && (m.last == 0 || first > m.last+1) {
		if err := m.show("--"); err != nil {
			return err
		}
	}
	for _, near := range m.before {
		if err := m.near(near); err != nil {
			return err
		}
	}
	m.before, m.after, m.last = nil, m.args.Context, lines.number
	return m.show(fmt.Sprintf("%s:%d:%s", m.name, lines.number, m.excerpt(lines, at)))
}

func (m *matching) near(line numbered) error {
	m.last = line.number
	return m.show(fmt.Sprintf("%s-%d-%s", m.name, line.number, line.text))
}

// room counts one more result. It returns errEnough if there are already as many as the limit.
func (m *matching) room() error {
	if m.count == m.limit {
		m.more = true
		return errEnough
	}
	m.count++
	return nil
}

func (m *matching) show(text string) error {
	if !m.page.add(text) {
		return errEnough
	}
	return nil
}

// excerpt returns the line, or the part of a long line around the position at.
func (m *matching) excerpt(lines *lines, at int) string {
	from, text := 0, lines.text
	if lines.size > maxLine && at > maxLine/2 {
		from = fault.RuneEdge(string(text), at-maxLine/10)
	}
	out, cut := clipLine(text[from:], lines.size-int64(from))
	if from > 0 {
		out = "…" + out
	}
	m.cut = m.cut || cut || from > 0
	return out
}
