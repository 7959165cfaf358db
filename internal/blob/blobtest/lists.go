package blobtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/testkit"
)

// tree returns keys whose order differs from the order of their folders.
func (s *suite) tree() []string {
	keys := []string{
		"a", "a!", "a-", "a-/x", "a.", "a/0", "a/b", "a/b/c", "a/b/d/e", "a/b0", "a0", "ab", "b/x", "b/y/z", "c", "docs/me/HEAD", "docs/me/packs/1", "docs/me/packs/2",
		"docs/me/v1/.state", "docs/me2/HEAD", "docs/you/HEAD", "z/" + strings.Repeat("p", 128) + "/q", "z/" + strings.Repeat("p", 128), "z/" + strings.Repeat("p", 130),
		"z/" + strings.Repeat("p", 128) + "!", "z/" + strings.Repeat("p", 127), "z/" + strings.Repeat("p", 127) + "!", "z/" + strings.Repeat("p", 127) + "/r",
	}
	if !s.h.Flat {
		return keys
	}
	return slices.DeleteFunc(keys, func(key string) bool {
		return slices.ContainsFunc(keys, func(other string) bool { return strings.HasPrefix(other, key+"/") })
	})
}

// expect returns the list that a store must return for the sorted keys.
func expect(keys []string, prefix string, o blob.ListOptions) []string {
	want := []string{}
	for _, key := range keys {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		if cut := strings.IndexByte(key[len(prefix):], '/'); o.Folders && cut >= 0 {
			key = key[:len(prefix)+cut+1]
		}
		if key > o.After && !slices.Contains(want, key) {
			want = append(want, key)
		}
	}
	return want
}

func (s *suite) listsLike(keys []string, prefix string, o blob.ListOptions) {
	s.Helper()
	entries, want := s.list(prefix, o), expect(keys, prefix, o)
	got := keysOf(entries)
	s.check(slices.Equal(got, want), "prefix %q, %+v: listed\n%q, want\n%q", prefix, o, got, want)
	for _, e := range entries {
		s.check(e.Folder == strings.HasSuffix(e.Key, "/"), "%s is a folder: %v", e.Key, e.Folder)
	}
}

func (s *suite) fill(keys []string) {
	s.Helper()
	work := make(chan string)
	var done sync.WaitGroup
	for range 16 {
		done.Go(func() {
			for key := range work {
				if _, err := s.s.Put(s.ctx(), key, strings.NewReader(key), int64(len(key)), blob.PutOptions{}); err != nil {
					s.Error(err)
				}
			}
		})
	}
	for _, key := range keys {
		work <- key
	}
	close(work)
	done.Wait()
	slices.Sort(keys)
}

func testListOrder(s *suite) {
	s.listsLike(nil, "", blob.ListOptions{})
	keys := s.tree()
	s.fill(keys)
	prefixes := []string{"", "a", "a/", "a/b", "a/b/", "none", "none/", "docs/me", "docs/me/", "docs/me/p", "z/" + strings.Repeat("p", 128), "z/" + strings.Repeat("p", 129), "/", "a//"}
	for _, prefix := range prefixes {
		s.listsLike(keys, prefix, blob.ListOptions{})
	}
	for _, after := range append(slices.Clone(keys), "a/", "a/b/", "docs/", "docs/me/zzz", "~", "A") {
		for _, prefix := range []string{"", "a", "docs/me/", "z/"} {
			s.listsLike(keys, prefix, blob.ListOptions{After: after})
		}
	}
}

func testListFolders(s *suite) {
	keys := s.tree()
	s.fill(keys)
	for _, prefix := range []string{"", "a", "a/", "a/b", "docs/", "docs/me", "docs/me/", "none/", "z/", "z/" + strings.Repeat("p", 128)} {
		for _, after := range []string{"", "a", "a/", "a/b", "a/b/", "a/b/c", "docs/me/", "docs/me/packs/", "docs/me/packs/1", "z/" + strings.Repeat("p", 128), "~"} {
			s.listsLike(keys, prefix, blob.ListOptions{Folders: true, After: after})
		}
	}
	// A folder without objects does not exist.
	s.must(s.s.Delete(s.ctx(), "docs/me/packs/1", "docs/me/packs/2", "docs/you/HEAD"))
	keys = slices.DeleteFunc(keys, func(key string) bool { return strings.HasPrefix(key, "docs/me/packs/") || key == "docs/you/HEAD" })
	s.listsLike(keys, "docs/", blob.ListOptions{Folders: true})
	s.listsLike(keys, "docs/me/", blob.ListOptions{Folders: true})
}

func testListPages(s *suite) {
	var keys []string
	for n := range testkit.Size(s.T, "blob.listed") {
		keys = append(keys, fmt.Sprintf("many/%d/%05d", n%3, n))
	}
	s.fill(keys)
	s.listsLike(keys, "many/", blob.ListOptions{})
	s.listsLike(keys, "many/1/", blob.ListOptions{})
	s.listsLike(keys, "many/1/", blob.ListOptions{Folders: true, After: keys[len(keys)/2]})
	s.listsLike(keys, "", blob.ListOptions{Folders: true})
	s.listsLike(keys, "many/", blob.ListOptions{After: keys[len(keys)/2]})
}

func testListStops(s *suite) {
	s.fill([]string{"1", "2", "3/4", "5"})
	for range 3 {
		var got []string
		for e, err := range s.s.List(s.ctx(), "", blob.ListOptions{}) {
			s.must(err)
			if got = append(got, e.Key); len(got) == 3 {
				break
			}
		}
		s.check(slices.Equal(got, []string{"1", "2", "3/4"}), "stopped at %q", got)
	}
}

func testDeleteMany(s *suite) {
	var keys []string
	for n := range testkit.Size(s.T, "blob.listed") {
		keys = append(keys, fmt.Sprintf("gone/%d/%05d", n%7, n))
	}
	s.fill(keys)
	s.put("kept", []byte("x"))
	s.must(s.s.Delete(s.ctx(), append(keys, "never/was")...))
	got := keysOf(s.list("", blob.ListOptions{}))
	s.check(slices.Equal(got, []string{"kept"}), "%d are left, %q …", len(got), got[:min(5, len(got))])
}
