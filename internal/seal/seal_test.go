package seal

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func key(t *testing.T, fingerprint string, fill byte) Key {
	t.Helper()
	k, err := NewKey(fingerprint, bytes.Repeat([]byte{fill}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var here = Cell{"acme", "sandboxes", "1", "env"}

func TestSealedTextOpensInItsPlaceAlone(t *testing.T) {
	r := NewRing(key(t, "new", 1))
	const text = `{"TOKEN":"canary"}`
	sealed, err := r.Seal("new", text, here)
	if err != nil || !Sealed(sealed) || strings.Contains(sealed, "canary") {
		t.Fatalf("sealed: %q, %v", sealed, err)
	}
	if again, _ := r.Seal("new", text, here); again == sealed {
		t.Error("the same text sealed twice is the same: the nonce is not random")
	}
	if got, err := r.Open(sealed, here); err != nil || got != text {
		t.Errorf("opened: %q, %v", got, err)
	}
	for _, other := range []Cell{
		{"other", "sandboxes", "1", "env"}, {"acme", "conversations", "1", "env"},
		{"acme", "sandboxes", "2", "env"}, {"acme", "sandboxes", "1", "overrides"},
		{"acmes", "andboxes", "1", "env"},
	} {
		if got, err := r.Open(sealed, other); !errors.Is(err, ErrDamaged) {
			t.Errorf("opened at %v: %q, %v", other, got, err)
		}
	}
}

func TestChangedTextIsRefused(t *testing.T) {
	r := NewRing(key(t, "new", 1))
	sealed, err := r.Seal("new", "text", here)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(prefix) + len("new") + 1; i < len(sealed); i++ {
		for _, with := range []string{"A", "B", "!"} {
			changed := sealed[:i] + with + sealed[i+1:]
			if changed == sealed {
				continue
			}
			if got, err := r.Open(changed, here); err == nil {
				t.Errorf("byte %d as %q opens as %q", i, with, got)
			}
		}
	}
	for _, text := range []string{"", "{}", prefix, prefix + "new", prefix + "new:", prefix + ":AAAA", prefix + "new:AAAA", sealed[:len(sealed)-1], sealed + "A"} {
		if got, err := r.Open(text, here); err == nil {
			t.Errorf("%q opens as %q", text, got)
		}
	}
}

func TestRingReadsWithEveryKey(t *testing.T) {
	was, is := key(t, "old", 1), key(t, "new", 2)
	before, both, after := NewRing(was), NewRing(is, was, was), NewRing(is)
	sealed, err := before.Seal("old", "text", here)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := both.Open(sealed, here); err != nil || got != "text" {
		t.Errorf("with both keys: %q, %v", got, err)
	}
	var unknown *UnknownKeyError
	if _, err := after.Open(sealed, here); !errors.As(err, &unknown) || unknown.Fingerprint != "old" {
		t.Errorf("without the old key: %v", err)
	}
	if _, err := after.Seal("old", "text", here); !errors.As(err, &unknown) {
		t.Errorf("sealed with a key that is not there: %v", err)
	}
	if got := fmt.Sprintln(both.Fingerprints(), both.Newest(), both.Has("old"), after.Has("old")); got != "[new old] new true false\n" {
		t.Error(got)
	}
}

func TestKeysAreChecked(t *testing.T) {
	for _, bad := range []struct {
		fingerprint string
		size        int
	}{{"", 32}, {"a:b", 32}, {"a", 31}, {"a", 16}} {
		if _, err := NewKey(bad.fingerprint, make([]byte, bad.size)); err == nil {
			t.Errorf("%+v makes a key", bad)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v %x", key(t, "f", 'k'), key(t, "f", 'k'), key(t, "f", 'k'), key(t, "f", 'k')); strings.Contains(text, "kkk") || strings.Contains(text, "6b6b") {
		t.Errorf("a key prints: %s", text)
	}
}
