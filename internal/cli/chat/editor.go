package chat

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
)

// editor edits a prompt at a terminal in raw mode. The prompt may have several lines.
type editor struct {
	out     io.Writer
	size    func() *api.TermSize
	prompt  string
	history []string

	text   []rune
	at     int // position of the cursor: before text[at]
	back   int // number of prompts back in history; 0: the new prompt
	kept   []rune
	drawnY int // row of the cursor, counted from the first drawn row
}

// Keys that send a single byte.
const (
	ctrlA, ctrlB, ctrlC, ctrlD, ctrlE, ctrlF = 1, 2, 3, 4, 5, 6
	ctrlH, ctrlJ, ctrlK, ctrlL, enter        = 8, 10, 11, 12, 13
	ctrlN, ctrlP, ctrlU, ctrlW, escapeKey    = 14, 16, 21, 23, 27
	backspace                                = 127
)

// read returns the prompt that the user types. It returns io.EOF for Ctrl-D and ui.ErrInterrupted for Ctrl-C if the
// text is empty. Lines that arrive together are a paste and become one prompt.
func (e *editor) read(keys *bufio.Reader) (string, error) {
	e.text, e.at, e.back, e.kept, e.drawnY = nil, 0, 0, nil, 0
	for {
		if keys.Buffered() == 0 {
			e.draw()
		}
		r, _, err := keys.ReadRune()
		if err != nil {
			e.leave()
			return "", err
		}
		switch {
		case r == enter && len(e.text) == 0: // nothing to send
		case r == enter && keys.Buffered() == 0:
			e.leave()
			return string(e.text), nil
		case r == ctrlD && len(e.text) == 0:
			e.leave()
			return "", io.EOF
		case r == ctrlC && len(e.text) == 0:
			e.leave()
			return "", ui.ErrInterrupted
		case r == escapeKey:
			err = e.sequence(keys)
		default:
			e.key(r)
		}
		if err != nil {
			e.leave()
			return "", err
		}
	}
}

// key handles a key that sends a single character.
func (e *editor) key(r rune) {
	switch r {
	case enter, ctrlJ:
		e.insert('\n')
	case ctrlA:
		e.at = e.lineStart(e.at)
	case ctrlE:
		e.at = e.lineEnd(e.at)
	case ctrlB:
		e.at = max(e.at-1, 0)
	case ctrlF:
		e.at = min(e.at+1, len(e.text))
	case ctrlC:
		e.replace(nil)
	case ctrlD:
		e.cut(e.at, min(e.at+1, len(e.text)))
	case ctrlH, backspace:
		e.cut(max(e.at-1, 0), e.at)
	case ctrlK:
		e.cut(e.at, e.lineEnd(e.at))
	case ctrlU:
		e.cut(e.lineStart(e.at), e.at)
	case ctrlW:
		e.cut(e.wordStart(), e.at)
	case ctrlP:
		e.up()
	case ctrlN:
		e.down()
	case ctrlL:
		fmt.Fprint(e.out, "\x1b[H\x1b[2J")
		e.drawnY = 0
	case '\t':
		e.insert(' ', ' ', ' ', ' ')
	default:
		if !unicode.IsControl(r) {
			e.insert(r)
		}
	}
}

// sequence handles a key that sends an escape sequence.
func (e *editor) sequence(keys *bufio.Reader) error {
	r, _, err := keys.ReadRune()
	if err != nil {
		return err
	}
	switch r {
	case enter, ctrlJ:
		e.insert('\n')
		return nil
	case 'b':
		e.at = e.wordStart()
		return nil
	case 'O', '[':
	default:
		return nil
	}
	var code strings.Builder
	for code.Len() < 16 {
		if r, _, err = keys.ReadRune(); err != nil {
			return err
		}
		code.WriteRune(r)
		if r >= '@' && r <= '~' {
			break
		}
	}
	if code.String() == "200~" {
		return e.paste(keys)
	}
	if do := sequences[code.String()]; do != nil {
		do(e)
	}
	return nil
}

var sequences = map[string]func(*editor){
	"A": (*editor).up, "B": (*editor).down,
	"C": func(e *editor) { e.key(ctrlF) }, "D": func(e *editor) { e.key(ctrlB) },
	"H": func(e *editor) { e.key(ctrlA) }, "1~": func(e *editor) { e.key(ctrlA) },
	"F": func(e *editor) { e.key(ctrlE) }, "4~": func(e *editor) { e.key(ctrlE) },
	"3~": func(e *editor) { e.cut(e.at, min(e.at+1, len(e.text))) },
}

// Escape sequences for pasting: pasteOn asks the terminal to mark pasted text, pasteOff ends that, and pasteEnd marks
// the end of pasted text.
const (
	pasteOn  = "\x1b[?2004h"
	pasteOff = "\x1b[?2004l"
	pasteEnd = "\x1b[201~"
)

func (e *editor) paste(keys *bufio.Reader) error {
	var text strings.Builder
	for !strings.HasSuffix(text.String(), pasteEnd) && text.Len() < maxPrompt {
		part, err := keys.ReadString('~')
		text.WriteString(part)
		if err != nil {
			return err
		}
	}
	pasted := strings.TrimSuffix(text.String(), pasteEnd)
	pasted = strings.ReplaceAll(strings.ReplaceAll(pasted, "\r\n", "\n"), "\r", "\n")
	e.insert([]rune(strings.ToValidUTF8(strings.ReplaceAll(pasted, "\t", "    "), "\uFFFD"))...)
	return nil
}

func (e *editor) insert(runes ...rune) {
	if len(e.text)+len(runes) > maxPrompt {
		return
	}
	e.text = slices.Insert(e.text, e.at, runes...)
	e.at += len(runes)
}

func (e *editor) cut(from, to int) {
	e.text = slices.Delete(e.text, from, to)
	e.at = from
}

func (e *editor) replace(text []rune) { e.text, e.at = text, len(text) }

func (e *editor) lineStart(at int) int {
	for at > 0 && e.text[at-1] != '\n' {
		at--
	}
	return at
}

func (e *editor) lineEnd(at int) int {
	for at < len(e.text) && e.text[at] != '\n' {
		at++
	}
	return at
}

func (e *editor) wordStart() int {
	at := e.at
	for at > 0 && unicode.IsSpace(e.text[at-1]) {
		at--
	}
	for at > 0 && !unicode.IsSpace(e.text[at-1]) {
		at--
	}
	return at
}

// up moves the cursor to the line above. From the first line it goes back in history.
func (e *editor) up() {
	start := e.lineStart(e.at)
	if start > 0 {
		e.at = min(e.lineStart(start-1)+e.at-start, start-1)
		return
	}
	e.recall(e.back + 1)
}

func (e *editor) down() {
	end := e.lineEnd(e.at)
	if end < len(e.text) {
		e.at = min(end+1+e.at-e.lineStart(e.at), e.lineEnd(end+1))
		return
	}
	e.recall(e.back - 1)
}

// recall shows an earlier prompt: 1 is the last one that was sent, and 0 the new one.
func (e *editor) recall(back int) {
	if back < 0 || back > len(e.history) {
		return
	}
	if e.back == 0 {
		e.kept = e.text
	}
	if e.back = back; back == 0 {
		e.replace(e.kept)
		return
	}
	e.replace([]rune(e.history[len(e.history)-back]))
}
