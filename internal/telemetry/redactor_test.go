package telemetry_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/testkit"
)

// canaries are secrets that each encoder treats in its own way.
var canaries = []string{
	"plainsecret0123456789",
	"8bytes!!",
	`quote"back\slash/and<html>&more`,
	"sp ace+plus%41percent@colon:?#=",
	"ünïcödé-пароль-\U0001F511",
	"tab\tand\x01control\x7fbytes",
	"not\xff\xfeutf8\x80bytes",
	"~tilde_under-dash.dot!'()*star",
	"-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END KEY-----\n",
}

func redactor(t testing.TB, secrets ...string) *telemetry.Redactor {
	t.Helper()
	r := &telemetry.Redactor{}
	for _, s := range secrets {
		if !r.Add(s) {
			t.Fatalf("secret %q was refused", s)
		}
	}
	return r
}

// encodings are independent of how the redactor makes its patterns: each writes
// a text with the secret inside, as some program would.
func encodings(secret string) map[string]string {
	encoded, _ := json.Marshal(map[string]string{"k": secret})
	nested, _ := json.Marshal(string(encoded))
	numbers, _ := json.Marshal([]int8{1})
	texts := map[string]string{
		"raw":               "before " + secret + " after",
		"alone":             secret,
		"hex":               "x" + hex.EncodeToString([]byte(secret)) + "x",
		"HEX":               fmt.Sprintf("%X", secret),
		"spaced hex":        fmt.Sprintf("% x", secret),
		"go quoted":         fmt.Sprintf("%q", secret),
		"go quoted ascii":   strconv.QuoteToASCII(secret),
		"json":              string(encoded),
		"json in json":      string(nested),
		"json array":        strings.Replace(string(numbers), "1", strings.Trim(strings.Join(strings.Fields(fmt.Sprint([]byte(secret))), ","), "[]"), 1),
		"byte slice":        fmt.Sprint([]byte(secret)),
		"go syntax":         fmt.Sprintf("%#v", []byte(secret)),
		"query":             "?a=" + url.QueryEscape(secret) + "&b=1",
		"lower query":       strings.ToLower(url.QueryEscape(strings.ToLower(secret))),
		"path":              "/x/" + url.PathEscape(secret) + "/y",
		"userinfo":          (&url.URL{Scheme: "https", Host: "h", User: url.UserPassword("u", secret)}).String(),
		"query in json":     `{"u":"https://h/?k=` + url.QueryEscape(secret) + `"}`,
		"base64 std padded": base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64 url padded": base64.URLEncoding.EncodeToString([]byte(secret)),
		"base64 std raw":    base64.RawStdEncoding.EncodeToString([]byte(secret)),
		"base64 url raw":    base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
	for lead := range 4 {
		for tail := range 4 {
			text := []byte(strings.Repeat("u", lead) + secret + strings.Repeat("v", tail))
			name := fmt.Sprintf("base64 after %d before %d", lead, tail)
			texts[name] = base64.StdEncoding.EncodeToString(text)
			texts[name+" in url"] = base64.RawURLEncoding.EncodeToString(text)
			texts[name+" in query"] = url.QueryEscape(texts[name])
		}
	}
	return texts
}

func TestCanaryCannotGetPast(t *testing.T) {
	testkit.Proves(t, "E5")
	for _, secret := range canaries {
		r := redactor(t, secret, strings.ToLower(secret))
		for name, text := range encodings(strings.TrimSpace(secret)) {
			got := r.String(text)
			if !strings.Contains(got, telemetry.Redacted) {
				t.Errorf("%s of %q got past: %s", name, secret, got)
			}
			// What is left beside the mark is the frame the test put there
			// and base64's shared edges.
			if left := len(strings.ReplaceAll(got, telemetry.Redacted, "")); left > 21 {
				t.Errorf("%s of %q leaves %d bytes: %s", name, secret, left, got)
			}
		}
	}
}

func TestLinesOfAKeyAreRedactedAlone(t *testing.T) {
	r := redactor(t, canaries[len(canaries)-1])
	got := r.String("log: MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----BEGIN KEY-----")
	if got != "log: [redacted]\n-----BEGIN KEY-----" {
		t.Errorf("got %q", got)
	}
}

func TestOrdinaryTextIsLeftAlone(t *testing.T) {
	r := redactor(t, canaries...)
	for _, text := range []string{"", "plainsecret012345678", "the quick brown fox", "8bytes!", strings.Repeat("p", 100)} {
		if got := r.String(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	var empty telemetry.Redactor
	if got := empty.String("anything at all"); got != "anything at all" {
		t.Errorf("a redactor without secrets made %q", got)
	}
}

func TestShortSecretsAreRefused(t *testing.T) {
	r := &telemetry.Redactor{}
	for _, short := range []string{"", "1234567", "   1234567\n"} {
		if r.Add(short) {
			t.Errorf("%q was accepted", short)
		}
	}
	if got := r.String("1234567"); got != "1234567" {
		t.Errorf("got %q", got)
	}
	if !r.Add(" 12345678\n") || r.String("a12345678b") != "a[redacted]b" {
		t.Error("eight characters are not hidden")
	}
}

func TestOverlappingSecretsLeaveNothing(t *testing.T) {
	r := redactor(t, "abcdefghij", "fghijklmno", "abcdefghijklm", "zzzzzzzz")
	for text, want := range map[string]string{
		"-abcdefghijklmno-":                 "-[redacted]-",
		"-fghijklmno-":                      "-[redacted]-",
		"abcdefghijabcdefghij":              "[redacted][redacted]",
		"-" + strings.Repeat("z", 50) + "-": "-[redacted]-",
	} {
		if got := r.String(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestSecretsCanBeAddedWhileOthersRead(t *testing.T) {
	r := &telemetry.Redactor{}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				secret := fmt.Sprintf("secret-%d-%d-secret", i, j)
				r.Add(secret)
				if got := r.String("x" + secret); got != "x[redacted]" {
					t.Errorf("got %q", got)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkRedactLogLine(b *testing.B) {
	for _, n := range []int{0, 1, 1000} {
		b.Run(fmt.Sprintf("secrets=%d", n), func(b *testing.B) {
			r := &telemetry.Redactor{}
			for i := range n {
				r.Add(fmt.Sprintf("%016x-secret", uint64(i+1)*0x9e3779b97f4a7c15))
			}
			line := strings.Repeat(`{"time":"2026-01-02T03:04:05Z","level":"INFO","msg":"sandbox.resolve.reuse","sandbox_id":"0197b5a8"}`, 3)
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				r.String(line)
			}
		})
	}
}

func BenchmarkAddSecret(b *testing.B) {
	r := &telemetry.Redactor{}
	i := uint64(0)
	for b.Loop() {
		i++
		r.Add(fmt.Sprintf("%016x-secret", i*0x9e3779b97f4a7c15))
	}
}
