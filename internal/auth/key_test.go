package auth

import (
	"regexp"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"pgregory.net/rapid"
)

func TestGeneratedKeysPassTheirOwnCheck(t *testing.T) {
	shape := regexp.MustCompile(`^berth_[0-9A-Za-z]{49}$`)
	seen := map[string]bool{}
	for range 1000 {
		key := Generate()
		if err := CheckFormat(key); err != nil || !shape.MatchString(key) {
			t.Fatalf("key %q: %v", key, err)
		}
		if seen[key] {
			t.Fatalf("key %q came twice", key)
		}
		seen[key] = true
	}
}

// Any one character that is off, anywhere, is told from an unknown key without a database.
func TestMistypedKeyFailsItsChecksum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := Generate()
		at := rapid.IntRange(len(keyPrefix), len(key)-1).Draw(t, "position")
		other := rapid.SampledFrom([]byte(digits)).Draw(t, "digit")
		if key[at] == other {
			t.Skip("the same digit")
		}
		mistyped := key[:at] + string(other) + key[at+1:]
		if err := CheckFormat(mistyped); err == nil || !strings.Contains(err.Error(), "mistyped") {
			t.Fatalf("%q for %q: %v", mistyped, key, err)
		}
	})
}

func TestCheckFormat(t *testing.T) {
	for _, c := range []struct {
		name, key string
		ok        bool
	}{
		{"chosen by an operator", "correct-horse-battery-staple", true},
		{"20 characters", strings.Repeat("k", 20), true},
		{"200 characters", strings.Repeat("k", 200), true},
		{"our prefix, but no key of our form", "berth_test_key_0123456789", true},
		{"our length, but no key of our form", "berth_" + strings.Repeat("-", keyChars-len(keyPrefix)), true},
		{"19 characters", strings.Repeat("k", 19), false},
		{"201 characters", strings.Repeat("k", 201), false},
		{"a space", "correct horse battery staple", false},
		{"a newline", "correct-horse-battery-staple\n", false},
		{"not ASCII", "correct-horse-battery-stäple", false},
		{"empty", "", false},
	} {
		err := CheckFormat(c.key)
		if c.ok && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if !c.ok {
			wantCode(t, err, api.CodeUnauthenticated)
		}
	}
}

func TestPrefixGivesLittleAway(t *testing.T) {
	key := Generate()
	if got := Prefix(key); got != key[:12] {
		t.Errorf("prefix %q of %q, want the first 12 characters", got, key)
	}
	for key, want := range map[string]string{"correct-horse-battery-staple": "corr", "abc": "abc"} {
		if got := Prefix(key); got != want {
			t.Errorf("prefix %q of %q, want %q", got, key, want)
		}
	}
}

func TestHashTellsKeysApart(t *testing.T) {
	a, b := Generate(), Generate()
	if first := Hash(a); first == Hash(b) || first != Hash(a) {
		t.Error("hashes do not stand for keys")
	}
}

func TestScopesIncludeThoseBelow(t *testing.T) {
	for have, may := range map[api.Scope]string{"read": "read", "write": "read write", "admin": "read write admin", "": "", "root": ""} {
		var got []string
		for _, need := range []api.Scope{"read", "write", "admin", "", "root"} {
			if Includes(have, need) {
				got = append(got, string(need))
			}
		}
		if strings.Join(got, " ") != may {
			t.Errorf("scope %q includes %v, want %q", have, got, may)
		}
	}
}

func TestHighest(t *testing.T) {
	for _, c := range []struct {
		scopes []string
		want   api.Scope
	}{{nil, ""}, {[]string{"read"}, "read"}, {[]string{"admin", "read"}, "admin"}, {[]string{"root"}, ""}} {
		if got := Highest(c.scopes); got != c.want {
			t.Errorf("Highest(%v) = %q, want %q", c.scopes, got, c.want)
		}
	}
}
