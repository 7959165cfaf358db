package blobtest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing/iotest"
	"time"

	"github.com/berthdev/berth/internal/blob"
)

func testRoundTrip(s *suite) {
	for name, size := range map[string]int{"empty": 0, "one": 1, "page": 4096, "large": 3<<20 + 17} {
		text := noise(1, size)
		tag := s.put("round/"+name, text)
		s.has("round/"+name, text)
		object, _ := s.get("round/"+name, blob.GetOptions{})
		s.check(object.Tag == tag, "%s: Get says tag %s, Put said %s", name, object.Tag, tag)
		// The store's clock may differ from the clock of this machine.
		s.check(time.Since(object.At).Abs() < 24*time.Hour, "%s: written at %v", name, object.At)
		entries := s.list("round/"+name, blob.ListOptions{})
		s.check(len(entries) == 1 && entries[0].Tag == tag && entries[0].Size == int64(size) && !entries[0].At.IsZero() && !entries[0].Folder,
			"%s is listed as %+v", name, entries)
	}
}

func testRanges(s *suite) {
	text := noise(2, 100_000)
	s.put("ranges", text)
	s.put("empty", nil)
	for _, c := range []struct{ offset, length, from, to int64 }{
		{0, 0, 0, 100_000}, {0, 1, 0, 1}, {99_999, 1, 99_999, 100_000}, {5, 70_000, 5, 70_005},
		{50_000, 0, 50_000, 100_000}, {99_990, 1000, 99_990, 100_000}, {0, 1 << 40, 0, 100_000},
	} {
		object, got := s.get("ranges", blob.GetOptions{Offset: c.offset, Length: c.length})
		s.check(bytes.Equal(got, text[c.from:c.to]), "from %d, %d bytes: got %s", c.offset, c.length, brief(got))
		s.check(object.Size == 100_000, "from %d, %d bytes: the whole has %d", c.offset, c.length, object.Size)
	}
	for _, o := range []blob.GetOptions{{Offset: 100_000}, {Offset: 100_000, Length: 1}, {Offset: 1 << 40, Length: 7}} {
		_, _, err := read(s.ctx(), s.s, "ranges", o)
		s.check(errors.Is(err, blob.ErrRange), "%+v: %v", o, err)
	}
	for _, o := range []blob.GetOptions{{}, {Length: 10}} {
		object, got := s.get("empty", o)
		s.check(len(got) == 0 && object.Size == 0 && object.Tag != "", "empty, %+v: %s, %+v", o, brief(got), object)
	}
	_, _, err := read(s.ctx(), s.s, "empty", blob.GetOptions{Offset: 1})
	s.check(errors.Is(err, blob.ErrRange), "behind an empty object: %v", err)
}

func testMissing(s *suite) {
	for _, o := range []blob.GetOptions{{}, {Offset: 3, Length: 4}, {IfNoneMatch: `"x"`}} {
		_, _, err := read(s.ctx(), s.s, "no/such", o)
		s.check(errors.Is(err, blob.ErrNotFound), "get %+v: %v", o, err)
	}
	s.must(s.s.Delete(s.ctx(), "no/such", "nor/this"))
	s.must(s.s.Delete(s.ctx()))
	s.put("was/here", []byte("x"))
	s.must(s.s.Delete(s.ctx(), "was/here"))
	_, _, err := read(s.ctx(), s.s, "was/here", blob.GetOptions{})
	s.check(errors.Is(err, blob.ErrNotFound), "get what was deleted: %v", err)
	s.check(len(s.list("", blob.ListOptions{})) == 0, "what was deleted is listed")
}

func testOverwrite(s *suite) {
	seen := map[blob.Tag]bool{}
	for n := range 20 {
		text := noise(uint64(n), 1000)
		tag := s.put("again", text)
		s.check(!seen[tag], "write %d has a tag of an earlier state", n)
		seen[tag] = true
		s.has("again", text)
	}
}

func testConditions(s *suite) {
	absent, match := blob.PutOptions{IfAbsent: true}, func(t blob.Tag) blob.PutOptions { return blob.PutOptions{IfMatch: t} }
	one, err := s.try("c", "one", absent)
	s.must(err)
	for _, o := range []blob.PutOptions{absent, match(`"0123456789abcdef0123456789abcdef"`)} {
		_, err := s.try("c", "other", o)
		s.check(errors.Is(err, blob.ErrPrecondition), "%+v over one: %v", o, err)
	}
	two, err := s.try("c", "two", match(one))
	s.must(err)
	_, err = s.try("c", "three", match(one))
	s.check(errors.Is(err, blob.ErrPrecondition), "old tag: %v", err)
	s.has("c", []byte("two"))
	_, _, err = read(s.ctx(), s.s, "c", blob.GetOptions{IfNoneMatch: two})
	s.check(errors.Is(err, blob.ErrNotModified), "known tag: %v", err)
	object, text := s.get("c", blob.GetOptions{IfNoneMatch: one})
	s.check(string(text) == "two" && object.Tag == two, "other tag: %q, %+v", text, object)
	s.must(s.s.Delete(s.ctx(), "c"))
	for key, o := range map[string]blob.PutOptions{"c": match(two), "never/was": match(two)} {
		_, err := s.try(key, "x", o)
		s.check(errors.Is(err, blob.ErrPrecondition), "%s is not there, wanted %+v: %v", key, o, err)
	}
	_, err = s.try("c", "four", absent)
	s.must(err)
	_, err = s.try("c", "five", blob.PutOptions{})
	s.must(err)
	s.has("c", []byte("five"))
}

// largeSizes are close to the sizes from which stores send objects in parts.
var largeSizes = []int{8 << 20, 16 << 20, 16<<20 + 1, 24<<20 + 5}

func testLarge(s *suite) {
	for n, size := range largeSizes {
		text := noise(uint64(n), size)
		// A bytes.Reader can be read repeatedly, a stream only once.
		s.put("large", text)
		s.has("large", text)
		_, err := s.s.Put(s.ctx(), "stream", struct{ io.Reader }{bytes.NewReader(text)}, int64(size), blob.PutOptions{})
		s.must(err)
		s.has("stream", text)
	}
}

func testLargeConditions(s *suite) {
	s.put("large", []byte("x"))
	big := noise(99, 16<<20+1)
	put := func(o blob.PutOptions) (blob.Tag, error) {
		return s.s.Put(s.ctx(), "large", bytes.NewReader(big), int64(len(big)), o)
	}
	_, err := put(blob.PutOptions{IfAbsent: true})
	s.check(errors.Is(err, blob.ErrPrecondition), "a large object over one: %v", err)
	object, _ := s.get("large", blob.GetOptions{Length: 1})
	_, err = put(blob.PutOptions{IfMatch: object.Tag})
	s.must(err)
	_, err = put(blob.PutOptions{IfMatch: object.Tag})
	s.check(errors.Is(err, blob.ErrPrecondition), "a large object with an old tag: %v", err)
	s.has("large", big)
	s.must(s.s.Delete(s.ctx(), "large"))
	_, err = put(blob.PutOptions{IfMatch: object.Tag})
	s.check(errors.Is(err, blob.ErrPrecondition), "a large object over none: %v", err)
}

func testReaders(s *suite) {
	broken := errors.New("the reader broke")
	for _, size := range []int{0, 10, 1 << 20, 20 << 20} {
		s.must(s.s.Delete(s.ctx(), "r"))
		for name, r := range map[string]io.Reader{
			"short memory": bytes.NewReader(noise(1, size)),
			"short stream": struct{ io.Reader }{bytes.NewReader(noise(1, size))},
			"broken":       io.MultiReader(bytes.NewReader(noise(1, size)), iotest.ErrReader(broken)),
		} {
			_, err := s.s.Put(s.ctx(), "r", r, int64(size)+1, blob.PutOptions{})
			s.check(err != nil, "%s reader of %d bytes: no error", name, size)
			s.check(name != "broken" || errors.Is(err, broken), "%s reader: %v", name, err)
			s.check(name == "broken" || errors.Is(err, io.ErrUnexpectedEOF), "%s reader: %v", name, err)
			s.check(len(s.list("", blob.ListOptions{})) == 0, "%s reader of %d bytes left something", name, size)
		}
		long := strings.NewReader(strings.Repeat("x", size) + "rest")
		_, err := s.s.Put(s.ctx(), "r", long, int64(size), blob.PutOptions{})
		s.must(err)
		s.has("r", bytes.Repeat([]byte("x"), size))
		s.check(long.Len() == 4, "%d of 4 bytes behind the object were left", long.Len())
	}
	s.put("r", []byte("before"))
	_, err := s.s.Put(s.ctx(), "r", iotest.ErrReader(broken), 7, blob.PutOptions{})
	s.check(errors.Is(err, broken), "broken reader over an object: %v", err)
	s.has("r", []byte("before"))
}

func testCopy(s *suite) {
	for n, size := range []int{0, 5, 20 << 20} {
		text := noise(uint64(n), size)
		s.put("from", text)
		s.must(s.s.Copy(s.ctx(), "from", "to/new"))
		s.has("to/new", text)
		s.put("to/old", []byte("something else"))
		s.must(s.s.Copy(s.ctx(), "from", "to/old"))
		s.has("to/old", text)
		s.must(s.s.Copy(s.ctx(), "from", "to/old"))
		s.has("to/old", text)
		// A change of the source must not change the copy.
		s.put("from", []byte("changed"))
		s.has("to/new", text)
		s.must(s.s.Delete(s.ctx(), "from", "to/old"))
		s.has("to/new", text)
		tag := s.put("to/new", []byte("moved on"))
		s.has("to/new", []byte("moved on"))
		s.check(s.list("to/new", blob.ListOptions{})[0].Tag == tag, "a copy that was replaced has an old tag")
		s.must(s.s.Delete(s.ctx(), "to/new"))
	}
	err := s.s.Copy(s.ctx(), "none", "to/none")
	s.check(errors.Is(err, blob.ErrNotFound), "copy of nothing: %v", err)
	s.check(len(s.list("", blob.ListOptions{})) == 0, "copies of nothing are there")
}

// testWhole writes one object repeatedly and reads it at the same time.
func testWhole(s *suite) {
	const size = 300_000
	fill := func(n int) []byte { return bytes.Repeat([]byte{byte('a' + n%20)}, size+n%20) }
	s.put("whole", fill(0))
	done := make(chan error, 1)
	go func() {
		for n := range 60 {
			text := fill(n)
			if _, err := s.s.Put(s.ctx(), "whole", bytes.NewReader(text), int64(len(text)), blob.PutOptions{}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for reads := 0; ; reads++ {
		_, got := s.get("whole", blob.GetOptions{})
		s.check(bytes.Equal(got, fill(int(got[0]-'a'))), "read %d is torn: %s", reads, brief(got))
		select {
		case err := <-done:
			s.must(err)
			return
		default:
		}
	}
}
