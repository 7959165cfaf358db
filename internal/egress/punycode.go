package egress

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// asciiName brings a name into lower case and its international parts into the form that DNS has for
// them. It does not compose or map characters: what would need it is refused, and can be given as xn--.
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
	runes := []rune(label)
	plain := true
	for i, r := range runes {
		if r < utf8.RuneSelf {
			runes[i] = rune(strings.ToLower(string(r))[0])
			continue
		}
		plain = false
		runes[i] = unicode.ToLower(r)
		if !nameRune(runes, i) {
			return "", fmt.Errorf("the character %q cannot be used here; write the name in its xn-- form", r)
		}
	}
	switch {
	case plain:
		return string(runes), nil
	case len(runes) > 63:
		return "", errors.New("a part of a name has at most 63 characters")
	case strings.HasPrefix(string(runes), "xn--"):
		return "", errors.New("a part that begins with xn-- has no other characters than ASCII")
	}
	return "xn--" + punycode(runes), nil
}

// composing scripts write with one character what could be two: a letter and a mark.
var composing = []*unicode.RangeTable{unicode.Latin, unicode.Greek, unicode.Cyrillic}

// compatible holds the letters that stand for other letters, and for dots.
var compatible = &unicode.RangeTable{
	R16: []unicode.Range16{{0x2100, 0x214f, 1}, {0x2460, 0x24ff, 1}, {0xf900, 0xfaff, 1}, {0xfb00, 0xfdff, 1}, {0xfe70, 0xffef, 1}},
	R32: []unicode.Range32{{0x1d400, 0x1d7ff, 1}, {0x1f100, 0x1f1ff, 1}, {0x2f800, 0x2fa1f, 1}},
}

func nameRune(runes []rune, i int) bool {
	r := runes[i]
	switch {
	case r < utf8.RuneSelf || unicode.Is(compatible, r):
		return false // the Kelvin sign, in lower case, is a k
	case unicode.IsMark(r):
		return i > 0 && !unicode.In(runes[i-1], composing...)
	}
	return unicode.IsLetter(r) || unicode.Is(unicode.Nd, r)
}

// punycode encodes a label as RFC 3492 says. The label is at most 63 runes long, so nothing overflows.
func punycode(runes []rune) string {
	const base, initialBias, initialN = 36, 72, 128
	out := slices.DeleteFunc(slices.Clone(runes), func(r rune) bool { return r >= initialN })
	done, basic := len(out), len(out)
	if basic > 0 {
		out = append(out, '-')
	}
	n, delta, bias := rune(initialN), 0, initialBias
	for done < len(runes) {
		next := rune(math.MaxInt32)
		for _, r := range runes {
			if r >= n {
				next = min(next, r)
			}
		}
		delta += int(next-n) * (done + 1)
		n = next
		for _, r := range runes {
			switch {
			case r < n:
				delta++
			case r == n:
				q := delta
				for k := base; ; k += base {
					t := min(max(k-bias, 1), 26)
					if q < t {
						break
					}
					out = append(out, digit(t+(q-t)%(base-t)))
					q = (q - t) / (base - t)
				}
				out = append(out, digit(q))
				bias = adapt(delta, done+1, done == basic)
				delta = 0
				done++
			}
		}
		delta++
		n++
	}
	return string(out)
}

func digit(d int) rune {
	return rune("abcdefghijklmnopqrstuvwxyz0123456789"[d])
}

func adapt(delta, points int, first bool) int {
	const base, tmin, tmax, skew, damp = 36, 1, 26, 38, 700
	if first {
		delta /= damp
	} else {
		delta /= 2
	}
	delta += delta / points
	k := 0
	for ; delta > (base-tmin)*tmax/2; k += base {
		delta /= base - tmin
	}
	return k + (base-tmin+1)*delta/(delta+skew)
}
