package transcripttest

import (
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/transcript"
)

// putMany puts count messages in random order and returns their ids in ascending order.
func (s *suite) putMany(conversation string, count int) []string {
	s.Helper()
	var messages []api.Message
	var ids []string
	for range count {
		m := textMessage(conversation, "x")
		messages, ids = append(messages, m), append(ids, m.ID)
	}
	rand.Shuffle(count, func(i, j int) { messages[i], messages[j] = messages[j], messages[i] })
	for _, m := range messages {
		s.put(m)
	}
	slices.Sort(ids)
	return ids
}

func reversed(ids []string) []string {
	ids = slices.Clone(ids)
	slices.Reverse(ids)
	return ids
}

func testOrders(s *suite) {
	conversation := store.NewID()
	ids := s.putMany(conversation, 30)
	s.putMany(store.NewID(), 3)
	got := s.pages(conversation, transcript.Page{})
	s.check(slices.Equal(got, ids), "oldest first: %v, not %v", got, ids)
	got = s.pages(conversation, transcript.Page{Newest: true})
	s.check(slices.Equal(got, reversed(ids)), "newest first: %v, not %v", got, reversed(ids))
}

func testPages(s *suite) {
	conversation := store.NewID()
	count := testkit.Size(s, "transcript.messages")
	ids := s.putMany(conversation, count)
	for _, limit := range []int{1, 2, 3, 7, count - 1, count, count + 1, -1, 0, 1 << 30} {
		for _, newest := range []bool{false, true} {
			want := ids
			if newest {
				want = reversed(ids)
			}
			got := s.pages(conversation, transcript.Page{Limit: limit, Newest: newest})
			s.check(slices.Equal(got, want), "pages of %d, newest first: %v: %d messages of %d, or in another order", limit, newest, len(got), len(ids))
		}
	}
	page, next, err := s.s.List(s.ctx(), acme, conversation, transcript.Page{})
	s.check(len(page) == transcript.DefaultLimit && next != "" && err == nil, "a page without a limit has %d, %v", len(page), err)
}

func testPagesFromAnywhere(s *suite) {
	conversation := store.NewID()
	before := store.NewID()
	ids := s.putMany(conversation, 10)
	after := store.NewID()
	for _, c := range []struct {
		page transcript.Page
		want []string
	}{
		{transcript.Page{After: before}, ids},
		{transcript.Page{After: after}, nil},
		{transcript.Page{After: ids[3]}, ids[4:]},
		{transcript.Page{After: ids[9]}, nil},
		{transcript.Page{After: after, Newest: true}, reversed(ids)},
		{transcript.Page{After: before, Newest: true}, nil},
		{transcript.Page{After: ids[3], Newest: true}, reversed(ids[:3])},
		{transcript.Page{After: ids[0], Newest: true}, nil},
	} {
		got := s.pages(conversation, c.page)
		s.check(slices.Equal(got, c.want), "%+v: %v, not %v", c.page, got, c.want)
	}
}

// testPageBytes checks that a page of large messages ends early, so that it needs limited memory.
func testPageBytes(s *suite) {
	conversation := store.NewID()
	const size = transcript.PageBytes * 2 / 5
	var ids []string
	for range 4 {
		ids = append(ids, s.put(sizedMessage(conversation, size)).ID)
		ids = append(ids, s.put(textMessage(conversation, "small")).ID)
	}
	for _, newest := range []bool{false, true} {
		want := ids
		if newest {
			want = reversed(ids)
		}
		var got []string
		count := 0
		for page := (transcript.Page{Newest: newest}); ; count++ {
			messages, next, err := s.s.List(s.ctx(), acme, conversation, page)
			s.must(err)
			bytes := 0
			for _, m := range messages {
				s.check(bytes <= transcript.PageBytes, "a page goes on after %d bytes", bytes)
				bytes += len(text(m))
				got = append(got, m.ID)
			}
			if page.After = next; next == "" {
				break
			}
		}
		s.check(count > 0 && slices.Equal(got, want), "newest first: %v: %v, not %v", newest, got, want)
	}
}

// testPagesUnderWrites reads during concurrent puts: each message that existed at the beginning is in exactly one
// page.
func testPagesUnderWrites(s *suite) {
	conversation := store.NewID()
	ids := s.putMany(conversation, 20)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	for range 2 {
		wg.Go(func() {
			for range 300 {
				select {
				case <-stop:
					return
				default:
				}
				if err := s.s.Put(s.ctx(), acme, textMessage(conversation, "another")); err != nil {
					s.Error(err)
					return
				}
			}
		})
	}
	for _, newest := range []bool{false, true} {
		seen := map[string]int{}
		for page := (transcript.Page{Limit: 3, Newest: newest}); ; {
			messages, next, err := s.s.List(s.ctx(), acme, conversation, page)
			s.must(err)
			for _, m := range messages {
				seen[m.ID]++
				s.check(seen[m.ID] == 1, "newest first: %v: message %s was listed again", newest, m.ID)
			}
			if page.After = next; next == "" || !newest && next > ids[len(ids)-1] {
				break // oldest first, the reader would never catch up with the writers
			}
		}
		for _, id := range ids {
			s.check(seen[id] == 1, "newest first: %v: message %s was not listed", newest, id)
		}
	}
}

func testAll(s *suite) {
	conversation := store.NewID()
	for range transcript.All(s.ctx(), s.s, acme, conversation) {
		s.Fatal("an empty conversation has a message")
	}
	ids := s.putMany(conversation, 12)
	var got []string
	for m, err := range transcript.All(s.ctx(), s.s, acme, conversation) {
		s.must(err)
		got = append(got, m.ID)
	}
	s.check(slices.Equal(got, ids), "%v, not %v", got, ids)
	for m, err := range transcript.All(s.ctx(), s.s, acme, conversation) {
		s.must(err)
		s.check(m.ID == ids[0], "the first is %s, not %s", m.ID, ids[0])
		break
	}
}
