package egress

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// strictNames refuses characters that IDNA maps to others, instead of mapping them. So two names that DNS treats as
// equal are equal strings here.
var strictNames = idna.New(idna.ValidateForRegistration(), idna.StrictDomainName(false), idna.VerifyDNSLength(false))

// asciiName converts a name to lower case and its international parts to their xn-- form.
func asciiName(name string) (string, error) {
	if !utf8.ValidString(name) {
		return "", errors.New("the name is not UTF-8")
	}
	if len(name) > 1024 {
		return "", errors.New("the name is too long")
	}
	labels := strings.Split(name, ".")
	for i, label := range labels {
		ascii, err := asciiLabel(label)
		if err != nil {
			return "", err
		}
		labels[i] = ascii
	}
	return strings.Join(labels, "."), nil
}

func asciiLabel(label string) (string, error) {
	lower := strings.ToLower(label)
	switch {
	case strings.IndexFunc(label, notASCII) < 0:
		return lower, nil
	case len([]rune(label)) > 63:
		return "", errors.New("a part of a name has at most 63 characters")
	case strings.HasPrefix(lower, "xn--"):
		return "", errors.New("a part that begins with xn-- has no other characters than ASCII")
	}
	for _, r := range label {
		if r >= utf8.RuneSelf && !nameRune(r) {
			return "", fmt.Errorf("the character %q cannot be used here; write the name in its xn-- form", r)
		}
	}
	ascii, err := strictNames.ToASCII(lower)
	if err != nil {
		return "", fmt.Errorf("%q is not in the form that DNS has for it; write it in its xn-- form", label)
	}
	return ascii, nil
}

// nameRune reports whether a character that is not ASCII may be part of a name. The Kelvin sign may not: its lower case
// is an ordinary k.
func nameRune(r rune) bool {
	return unicode.ToLower(r) >= utf8.RuneSelf && unicode.In(r, unicode.L, unicode.M, unicode.Nd)
}

func notASCII(r rune) bool { return r >= utf8.RuneSelf }
