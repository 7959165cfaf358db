package telemetry_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/testkit"
)

func TestSecretSplitAcrossWritesCannotGetPast(t *testing.T) {
	testkit.Proves(t, "E5")
	for _, secret := range canaries {
		r := redactor(t, secret, strings.ToLower(secret))
		for name, text := range encodings(strings.TrimSpace(secret)) {
			want := r.String(text)
			for cut := range len(text) {
				var out bytes.Buffer
				w := r.Writer(&out)
				write(t, w, text[:cut])
				write(t, w, text[cut:])
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				if out.String() != want {
					t.Fatalf("%s of %q cut at %d: %q, want %q", name, secret, cut, out.String(), want)
				}
			}
		}
	}
}

func write(t *testing.T, w *telemetry.Writer, text string) {
	t.Helper()
	if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("Write gave %d, %v", n, err)
	}
}

func TestByteByByte(t *testing.T) {
	r := redactor(t, "abcdefghij", "fghijklmno", "aaaaaaaaa")
	text := "xxabcdefghijklmnoaaaaaaaaaaaaaaaaabcdefghabcdefghij"
	var out bytes.Buffer
	w := r.Writer(&out)
	for i := range text {
		write(t, w, text[i:i+1])
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := r.String(text); out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestWriterHoldsBackOnlyWhatMayBeASecret(t *testing.T) {
	r := redactor(t, "secret-0123456789")
	var out bytes.Buffer
	w := r.Writer(&out)
	write(t, w, "an ordinary line\n")
	if out.String() != "an ordinary line\n" {
		t.Errorf("held back: %q", out.String())
	}
	out.Reset()
	write(t, w, "half: secret-01")
	if out.String() != "half: " {
		t.Errorf("passed on %q", out.String())
	}
	write(t, w, "99, no secret\n")
	if out.String() != "half: secret-0199, no secret\n" {
		t.Errorf("passed on %q", out.String())
	}
	out.Reset()
	write(t, w, "secret-")
	if err := w.Flush(); err != nil || out.String() != "secret-" {
		t.Errorf("flush gave %q, %v", out.String(), err)
	}
}

func TestWriterReportsFailure(t *testing.T) {
	broken := errors.New("broken pipe")
	w := redactor(t, "secret-0123456789").Writer(failing{broken})
	if n, err := w.Write([]byte("hello\n")); n != 0 || !errors.Is(err, broken) {
		t.Errorf("Write gave %d, %v", n, err)
	}
	if _, err := w.Write([]byte("secret")); err != nil {
		t.Errorf("holding back fails: %v", err)
	}
	if err := w.Close(); !errors.Is(err, broken) {
		t.Errorf("Close gave %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func FuzzWriterEqualsString(f *testing.F) {
	f.Add("say secret-0123456789 twice secret-0123456789", "secret-0123456789", "0123456789abc", []byte{3, 9, 1})
	f.Add("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaaaaaa", "aaaaaaaaa", []byte{1, 1, 1})
	f.Add("c2VjcmV0LTAxMjM0NTY3ODk=", "secret-0123456789", "abcdefgh", []byte{5})
	f.Fuzz(func(t *testing.T, text, one, two string, cuts []byte) {
		r := &telemetry.Redactor{}
		known := []string{}
		for _, secret := range []string{one, two} {
			if r.Add(secret) {
				known = append(known, strings.TrimSpace(secret))
			}
		}
		text = strings.Join(append([]string{text}, known...), text)
		want := r.String(text)
		var out bytes.Buffer
		w := r.Writer(&out)
		rest := text
		for _, cut := range cuts {
			n := min(int(cut), len(rest))
			write(t, w, rest[:n])
			rest = rest[n:]
		}
		write(t, w, rest)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Fatalf("stream %q, whole %q", out.String(), want)
		}
		// Between two marks stands text as it was written, so that a secret found
		// there is none that a mark helps to spell.
		for part := range strings.SplitSeq(out.String(), telemetry.Redacted) {
			for _, secret := range known {
				if strings.Contains(part, secret) {
					t.Fatalf("%q is still in %q", secret, part)
				}
			}
		}
	})
}
