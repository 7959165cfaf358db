package telemetry

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// patterns returns the texts that a secret may appear as. Each has at least minSecret bytes.
func patterns(secret string) []string {
	found := set{}
	for _, dump := range dumps(secret) {
		found[dump] = struct{}{}
	}
	for _, form := range append(base64Forms(secret), secret) {
		for _, escaped := range escapes(form) {
			found[escaped] = struct{}{}
		}
	}
	return found.list()
}

// fewPatterns returns the most common of patterns: the secret itself, and in JSON.
func fewPatterns(secret string) []string {
	once := jsonEscape(secret, false)
	found := set{}
	for _, form := range []string{secret, once, jsonEscape(secret, true), jsonEscape(once, false)} {
		found[form] = struct{}{}
	}
	return found.list()
}

type set map[string]struct{}

func (s set) list() []string {
	all := make([]string, 0, len(s))
	for text := range s {
		all = append(all, text)
	}
	return all
}

// dumps returns the forms that write every byte separately: hex, full URL encoding, and the output of fmt and
// encoding/json for byte slices and arrays.
func dumps(secret string) []string {
	bytes := []byte(secret)
	lower := hex.EncodeToString(bytes)
	return []string{
		lower, strings.ToUpper(lower),
		fmt.Sprintf("% x", bytes), fmt.Sprintf("% X", bytes),
		percent(lower), percent(strings.ToUpper(lower)),
		decimals(bytes, " "), decimals(bytes, ","),
		strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", bytes), "[]byte{"), "}"),
	}
}

// base64Forms returns the encodings in both alphabets, for all positions of the secret in the encoded text.
func base64Forms(secret string) []string {
	var forms []string
	for offset := range 3 {
		forms = append(forms,
			base64Core(base64.RawStdEncoding, []byte(secret), offset),
			base64Core(base64.RawURLEncoding, []byte(secret), offset))
	}
	return forms
}

// base64Core returns the characters of an encoding that depend on the secret alone. offset is the position of the
// secret's first byte in a group of three bytes. The characters at both ends are left out, because they also encode
// neighbouring bytes; they reveal at most four bits each.
func base64Core(enc *base64.Encoding, secret []byte, offset int) string {
	padded := append(make([]byte, offset), secret...)
	text := enc.EncodeToString(padded)
	shared := (offset*8 + 5) / 6
	whole := len(padded) * 8 / 6
	return text[shared:whole]
}

func decimals(bytes []byte, separator string) string {
	texts := make([]string, len(bytes))
	for i, b := range bytes {
		texts[i] = strconv.Itoa(int(b))
	}
	return strings.Join(texts, separator)
}

// percent returns the URL encoding that escapes every byte. digits are the bytes in hex.
func percent(digits string) string {
	var b strings.Builder
	for i := 0; i < len(digits); i += 2 {
		b.WriteByte('%')
		b.WriteString(digits[i : i+2])
	}
	return b.String()
}

// escapes returns the forms of a text inside another text: in JSON (escaped once and twice, with and without HTML
// escaping), in Go quotes, and in URLs. URL encoders differ in the characters that they escape.
func escapes(text string) []string {
	once, onceHTML := jsonEscape(text, false), jsonEscape(text, true)
	all := []string{
		text, once, onceHTML, jsonEscape(once, false), jsonEscape(onceHTML, false),
		strings.ReplaceAll(once, "/", `\/`),
		trimQuotes(strconv.Quote(text)), trimQuotes(strconv.QuoteToASCII(text)),
	}
	for _, escaped := range []string{
		url.QueryEscape(text), url.PathEscape(text), url.User(text).String(),
		(&url.URL{Path: text}).EscapedPath(), escapeComponent(text),
	} {
		all = append(all, escaped, lowerEscapes(escaped))
	}
	return all
}

func jsonEscape(text string, html bool) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	// A string can always be encoded.
	_ = enc.Encode(text)
	return trimQuotes(strings.TrimSuffix(b.String(), "\n"))
}

func trimQuotes(s string) string { return s[1 : len(s)-1] }

// escapeComponent escapes like encodeURIComponent of browsers: unlike QueryEscape, it escapes a space as %20 and does
// not escape !'()*.
func escapeComponent(text string) string {
	return strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*").
		Replace(url.QueryEscape(text))
}

// lowerEscapes converts percent escapes to lower case: %2F becomes %2f.
func lowerEscapes(escaped string) string {
	b := []byte(escaped)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(string(b[i+1:i+3])))
			i += 2
		}
	}
	return string(b)
}
