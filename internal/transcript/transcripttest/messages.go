package transcripttest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/transcript"
)

func testRoundTrip(s *suite) {
	conversation := store.NewID()
	full := s.put(message(conversation))
	s.has(full)
	bare := s.put(api.Message{ID: store.NewID(), ConversationID: conversation})
	s.has(bare)
	messages, next, err := s.s.List(s.ctx(), acme, conversation, transcript.Page{})
	s.must(err)
	s.check(len(messages) == 2 && next == "", "%d messages, then %q", len(messages), next)
	s.same(messages[0], full)
	s.same(messages[1], bare)
}

func testContent(s *suite) {
	conversation := store.NewID()
	for name, words := range map[string]string{
		"nothing":   "",
		"lines":     "one\ntwo\r\nthree\rfour\v\f\u0085five\u2028six\u2029seven",
		"controls":  "\x00\x01\x1b[31m\x7f\x00",
		"quotes":    `"\"'\\ \u0000 \x \ud800 {"a": 1}`,
		"markup":    "<script>&amp;</script>",
		"wide":      "naïve 日本語 🦀 e\u0301 \ufeff \ufffd \U0010ffff",
		"space":     " \t ",
		"long line": strings.Repeat("word ", 20_000),
	} {
		m := textMessage(conversation, words)
		m.Error, m.Model = words, words
		s.must(s.s.Put(s.ctx(), acme, m))
		got, err := s.s.Get(s.ctx(), acme, conversation, m.ID)
		s.must(err)
		s.check(got.Text() == words && got.Error == words, "%s came back as %q", name, got.Text())
	}
	broken := s.put(textMessage(conversation, "a\xffb\xc3"))
	got, err := s.s.Get(s.ctx(), acme, conversation, broken.ID)
	s.must(err)
	s.check(got.Text() == "a\ufffdb\ufffd", "what is no text came back as %q", got.Text())
}

// testRawInput checks that the arguments of tools, which are JSON from the agent, are stored unchanged.
func testRawInput(s *suite) {
	m := textMessage(store.NewID(), "x")
	with := func(input string) api.Message {
		m.ID, m.Content = store.NewID(), []api.Block{{Type: api.BlockToolUse, ID: "1", Name: "bash", Input: json.RawMessage(input)}}
		return m
	}
	for _, input := range []string{
		`{}`, `null`, `"text"`, `[1,2.50,-0,1e400,12345678901234567890]`, `{"a":1,"a":2}`, `"\ud800 \u0000 \/"`, "\"\u2028\"", `{"<":"&"}`,
	} {
		s.has(s.put(with(input)))
	}
	broken := s.put(with("{\"a\":\"b\xff\"}"))
	got, err := s.s.Get(s.ctx(), acme, broken.ConversationID, broken.ID)
	s.must(err)
	s.check(string(got.Content[0].Input) == "{\"a\":\"b\ufffd\"}", "what is no text came back as %q", got.Content[0].Input)

	for _, input := range []string{`{`, `"\x"`, "\"\n\""} {
		m := with(input)
		s.code(s.s.Put(s.ctx(), acme, m), api.CodeInvalidRequest)
		s.hasNot(m)
	}
}

func testLarge(s *suite) {
	conversation := store.NewID()
	var all []api.Message
	for _, size := range []int{100_000, 262_143, 262_144, 262_145, 400_000, 409_600, 1 << 20, 3_000_001} {
		all = append(all, s.put(sizedMessage(conversation, size)))
	}
	for _, m := range all {
		s.has(m)
	}
	var n int
	for m, err := range transcript.All(s.ctx(), s.s, acme, conversation) {
		s.must(err)
		s.same(m, all[n])
		n++
	}
	s.check(n == len(all), "%d of %d are listed", n, len(all))
	largest := s.put(sizedMessage(conversation, transcript.MaxMessage))
	s.check(len(text(largest)) == transcript.MaxMessage, "the largest message has %d bytes", len(text(largest)))
	s.has(largest)
	s.must(s.s.Forget(s.ctx(), acme, conversation))
	s.hasNot(largest)
}

func testTooLarge(s *suite) {
	m := sizedMessage(store.NewID(), transcript.MaxMessage+1)
	s.code(s.s.Put(s.ctx(), acme, m), api.CodeTooLarge)
	s.hasNot(m)
}

func testMissing(s *suite) {
	m := textMessage(store.NewID(), "x")
	s.hasNot(m)
	messages, next, err := s.s.List(s.ctx(), acme, m.ConversationID, transcript.Page{})
	s.check(len(messages) == 0 && next == "" && err == nil, "a conversation that nobody wrote in has %d, %q, %v", len(messages), next, err)
	s.put(m)
	other := m
	other.ConversationID = store.NewID()
	s.hasNot(other)
}

// testBadIDs checks invalid ids, which clients may send.
func testBadIDs(s *suite) {
	good := s.put(textMessage(store.NewID(), "x"))
	for _, id := range []string{"", "a/b", "a b", "a\x00b", "é", "\xff", "..\n", "%", strings.Repeat("a", 129), strings.Repeat("a", 1<<20)} {
		m := good
		m.ID = id
		s.code(s.s.Put(s.ctx(), acme, m), api.CodeInvalidRequest)
		s.hasNot(m)
		m = good
		m.ConversationID = id
		s.code(s.s.Put(s.ctx(), acme, m), api.CodeInvalidRequest)
		s.hasNot(m)
		s.must(s.s.Forget(s.ctx(), acme, id))
		messages, next, err := s.s.List(s.ctx(), acme, id, transcript.Page{})
		s.check(len(messages) == 0 && next == "" && err == nil, "conversation %.20q has %d, %q, %v", id, len(messages), next, err)
		if id == "" {
			continue
		}
		_, _, err = s.s.List(s.ctx(), acme, good.ConversationID, transcript.Page{After: id})
		s.code(err, api.CodeInvalidCursor)
	}
	s.has(good)
}

func testSecondPut(s *suite) {
	conversation := store.NewID()
	small := textMessage(conversation, "small")
	large := sizedMessage(conversation, 1_000_000)
	largeOther := sizedMessage(conversation, 900_000)
	for _, pair := range [][2]api.Message{{small, small}, {small, textMessage(conversation, "other")}, {small, large}, {large, small}, {large, large}, {large, largeOther}} {
		first, second := pair[0], pair[1]
		first.ID = store.NewID()
		second.ID = first.ID
		s.put(first)
		s.put(second)
		s.put(second)
		s.has(first)
	}
	s.check(len(s.pages(conversation, transcript.Page{})) == 6, "a second put made a second message")
}

func testTenants(s *suite) {
	mine := s.put(textMessage(store.NewID(), "mine"))
	_, err := s.s.Get(s.ctx(), globex, mine.ConversationID, mine.ID)
	s.code(err, api.CodeNotFound)
	messages, _, err := s.s.List(s.ctx(), globex, mine.ConversationID, transcript.Page{})
	s.check(len(messages) == 0 && err == nil, "another tenant sees %d messages, %v", len(messages), err)
	s.must(s.s.Forget(s.ctx(), globex, mine.ConversationID))
	s.has(mine)

	theirs := mine
	theirs.Content = []api.Block{{Type: api.BlockText, Text: "theirs"}}
	s.must(s.s.Put(s.ctx(), globex, theirs))
	got, err := s.s.Get(s.ctx(), globex, mine.ConversationID, mine.ID)
	s.must(err)
	s.same(got, theirs)
	s.has(mine)

	// These names are ambiguous when they are joined.
	m := textMessage("1.2", "x")
	s.must(s.s.Put(s.ctx(), "a:1", m))
	for _, tenant := range []string{"a", "a:", "a:1:", "3:a", ""} {
		for _, conversation := range []string{"1.2", "1", "2", ".2"} {
			messages, _, err := s.s.List(s.ctx(), tenant, conversation, transcript.Page{})
			s.check(len(messages) == 0 && err == nil, "%q and %q see it: %v", tenant, conversation, err)
		}
	}
	s.must(s.s.Forget(s.ctx(), "a:1", "1.2"))
}

func testEndedContext(s *suite) {
	m := textMessage(store.NewID(), "x")
	ended, cancel := context.WithCancel(s.ctx())
	cancel()
	_, err := s.s.Get(ended, acme, m.ConversationID, m.ID)
	_, _, listed := s.s.List(ended, acme, m.ConversationID, transcript.Page{})
	for _, err := range []error{err, listed, s.s.Put(ended, acme, m), s.s.Forget(ended, acme, m.ConversationID)} {
		var e *fault.Error
		s.check(errors.As(err, &e) && e.Code == api.CodeTimeout, "with an ended context: %v", err)
	}
	s.put(m)
	s.has(m)
}

func testCheck(s *suite) {
	s.must(s.s.Check(s.ctx()))
	s.must(s.s.Check(s.ctx()))
}
