package client

import "strings"

// The channels of an answer of the model.
const (
	thinking = iota
	answer
)

// lineTypes are the types of the lines for pieces and whole texts of each channel.
var lineTypes = [2][2]string{{LineThinkingDelta, LineThinking}, {LineDelta, LineText}}

// channel is the text so far of one kind in the current answer.
type channel struct {
	text  string
	first string // the first piece
	long  bool   // text is not complete because it was too long
	done  bool   // the text was printed as a whole

	torn  string // the text before it was cut off
	echo  bool   // text may still repeat torn, and is not printed
	guess bool   // there was no sign of a cut: text may also continue torn
}

// minRepeated is the length in bytes of a text whose repetition shows that it was cut off.
const minRepeated = 16

// say adds a piece to a text of the current answer and prints it.
func (s *shaper) say(kind int, piece, key string) {
	if late := key != "" && key == s.key; s.again && !late {
		s.again = false
		s.restart()
	} else if key != s.key && !late && s.key != "" {
		s.endTexts()
	}
	s.key = key
	if other := &s.texts[1-kind]; !other.echo && !other.done && other.text != "" {
		s.endText(1 - kind)
	}
	c := &s.texts[kind]
	if c.done && !c.echo {
		*c = channel{}
	}
	if s.Repeats && c.repeats(piece) {
		*c = channel{torn: c.text, echo: true, guess: true, first: c.first}
	}
	if c.text == "" && c.torn == "" {
		c.first = piece
	}
	if fresh := c.add(piece); fresh != "" {
		s.print(Line{Type: lineTypes[kind][0], Text: fresh})
	}
}

// repeats reports whether a piece seems to begin the text again.
func (c *channel) repeats(piece string) bool {
	return !c.echo && !c.long && len(c.text) >= minRepeated && piece == c.first
}

// restart prepares for an answer that begins again.
func (s *shaper) restart() {
	for i := range s.texts {
		if c := &s.texts[i]; c.text != "" && !c.long {
			*c = channel{torn: c.text, echo: true, done: c.done, first: c.first}
		}
	}
}

// add adds a piece and returns its new part.
func (c *channel) add(piece string) (fresh string) {
	if c.long || len(c.text)+len(piece) > maxText {
		c.long = true
		return piece
	}
	c.text += piece
	switch {
	case !c.echo:
		return piece
	case strings.HasPrefix(c.torn, c.text):
		return ""
	case strings.HasPrefix(c.text, c.torn):
		fresh = c.text[len(c.torn):]
		c.echo, c.done = false, false
		return fresh
	}
	return c.differ()
}

// differ ends the comparison with a text that was cut off, because the new one is another.
func (c *channel) differ() (fresh string) {
	fresh = c.text
	if c.guess {
		c.text = c.torn + c.text
	}
	c.echo, c.done, c.torn = false, false, ""
	return fresh
}

// endText prints the whole text of a channel, which replaces its pieces. A text that repeats one that was printed is
// not printed again.
func (s *shaper) endText(kind int) {
	c := &s.texts[kind]
	if c.echo && c.guess {
		if fresh := c.differ(); fresh != "" {
			s.print(Line{Type: lineTypes[kind][0], Text: fresh})
		}
	}
	whole, printed := c.text, false
	if c.echo && whole == "" {
		whole = c.torn // the new answer has no such text
	}
	if c.echo {
		printed = c.done && whole == c.torn
	}
	if whole != "" && !c.long && !printed {
		s.print(Line{Type: lineTypes[kind][1], Text: whole})
	}
	*c = channel{text: c.text, first: c.first, long: c.long, done: true}
}

// endTexts ends the current answer of the model.
func (s *shaper) endTexts() {
	s.release()
	for kind := range s.texts {
		if c := &s.texts[kind]; c.echo || !c.done {
			s.endText(kind)
		}
		s.texts[kind] = channel{}
	}
	s.key = ""
}
