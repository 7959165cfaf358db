package transcripttest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/transcript"
)

// at runs f n times concurrently and waits for all.
func at(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// Race puts different messages under one id concurrently, half of them through each store. Both stores have the same
// location. One message wins, and all readers must see that message. Every second message is large.
func Race(t *testing.T, a, b transcript.Store) {
	writers, rounds := testkit.Size(t, "transcript.writers"), testkit.Size(t, "transcript.rounds")
	s := &suite{t, a}
	stores := [2]transcript.Store{a, b}
	for range rounds {
		id, conversation := store.NewID(), store.NewID()
		put := map[string]bool{}
		drafts := make([]api.Message, writers)
		for i := range drafts {
			drafts[i] = textMessage(conversation, fmt.Sprint("draft ", i))
			if i%2 == 1 {
				drafts[i] = sizedMessage(conversation, 500_000+i)
			}
			drafts[i].ID = id
			put[text(drafts[i])] = true
		}
		seen := make([]string, writers)
		at(writers, func(i int) {
			st := stores[i%2]
			if err := st.Put(callContext(t), acme, drafts[i]); err != nil {
				t.Error(err)
				return
			}
			// Each writer reads the message that won.
			got, err := st.Get(callContext(t), acme, conversation, id)
			if err != nil {
				t.Error(err)
			}
			seen[i] = text(got)
		})
		for i := range seen {
			s.check(put[seen[i]], "a reader saw what nobody had put: %.200s", seen[i])
			s.check(seen[i] == seen[0], "two readers saw different messages: %.200s and %.200s", seen[0], seen[i])
		}
		s.check(len(s.pages(conversation, transcript.Page{})) == 1, "one id is several messages")
	}
}

func testForget(s *suite) {
	conversation := store.NewID()
	s.putMany(conversation, 60)
	large := s.put(sizedMessage(conversation, 1_500_000))
	kept := s.put(textMessage(store.NewID(), "kept"))
	for range 3 {
		s.must(s.s.Forget(s.ctx(), acme, conversation))
		s.check(len(s.pages(conversation, transcript.Page{})) == 0, "a forgotten conversation has messages")
		s.hasNot(large)
	}
	s.has(kept)
	s.put(large)
	s.has(large)
	s.must(s.s.Forget(s.ctx(), acme, store.NewID()))
}

// testForgetRace forgets a conversation during concurrent puts. Readers must see complete messages or none. After the
// last put, one call of Forget must empty the conversation.
func testForgetRace(s *suite) {
	conversation := store.NewID()
	writers, rounds := testkit.Size(s, "transcript.writers"), testkit.Size(s, "transcript.rounds")
	at(writers, func(i int) {
		for n := range rounds {
			m := textMessage(conversation, "small")
			if (i+n)%2 == 0 {
				m = sizedMessage(conversation, 800_000)
			}
			if err := s.s.Put(s.ctx(), acme, m); err != nil {
				s.Error(err)
			}
			got, err := s.s.Get(s.ctx(), acme, conversation, m.ID)
			if err != nil && fault.CodeOf(err) != api.CodeNotFound || err == nil && text(got) != text(m) {
				s.Errorf("a message that may be forgotten: %s, %v", shorten(got), err)
			}
			if _, _, err := s.s.List(s.ctx(), acme, conversation, transcript.Page{}); err != nil {
				s.Error(err)
			}
			if i%3 == 0 {
				if err := s.s.Forget(s.ctx(), acme, conversation); err != nil {
					s.Error(err)
				}
			}
		}
	})
	s.must(s.s.Forget(s.ctx(), acme, conversation))
	s.check(len(s.pages(conversation, transcript.Page{})) == 0, "a forgotten conversation has messages")
	again := s.put(sizedMessage(conversation, 800_000))
	s.has(again)
}
