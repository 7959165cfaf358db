package workspace

import (
	"slices"
	"strings"
)

// ignoreIndex finds the last rule that matches a path without comparing the path with every rule. Most rules are a
// name, a path, or the beginning or end of a name; these are found by map lookups. The other rules are compared
// only with names that contain all bytes the rule needs.
type ignoreIndex struct {
	names    map[string]ruleNumber // rules that consist of a name without wildcards
	paths    map[string]ruleNumber // rules that consist of a path without wildcards
	suffixes affixes               // rules of the form *text
	prefixes affixes               // rules of the form text*

	byFirst map[string][]int // other rules by their first segment, the last rule first
	byName  map[string][]int // other rules by their last segment, the last rule first
	rest    []int
}

// ruleNumber holds the number of the last of several equal rules: any counts all of them, file only those that also
// match files. Numbers start at one; zero means none.
type ruleNumber struct{ any, file int }

func (p *ruleNumber) add(i int, folderOnly bool) {
	p.any = i + 1
	if !folderOnly {
		p.file = i + 1
	}
}

func (p ruleNumber) of(folder bool) int {
	if folder {
		return p.any
	}
	return p.file
}

// affixes holds rules that match the beginning or the end of a name. Lengths lists the different lengths of the
// texts.
type affixes struct {
	rules   map[string]ruleNumber
	lengths []int
}

func (a *affixes) add(text string, i int, folderOnly bool) {
	if _, known := a.rules[text]; !known && !slices.Contains(a.lengths, len(text)) {
		a.lengths = append(a.lengths, len(text))
	}
	a.rules = put(a.rules, text, i, folderOnly)
}

func put(m map[string]ruleNumber, text string, i int, folderOnly bool) map[string]ruleNumber {
	if m == nil {
		m = map[string]ruleNumber{}
	}
	p := m[text]
	p.add(i, folderOnly)
	m[text] = p
	return m
}

// isLiteral reports whether a pattern segment contains no wildcard.
func isLiteral(part string) bool { return !strings.ContainsAny(part, `*?[\`) }

// build adds the rules to the index.
func (x *ignoreIndex) build(rules []rule) {
	for i := range rules {
		r := &rules[i]
		last := r.parts[len(r.parts)-1]
		if last != "**" {
			r.needs = neededBytes(last)
		}
		switch {
		case r.name != "" && isLiteral(r.name):
			x.names = put(x.names, r.name, i, r.folderOnly)
		case r.name != "" && r.name != "**" && strings.HasPrefix(r.name, "*") && isLiteral(r.name[1:]):
			x.suffixes.add(r.name[1:], i, r.folderOnly)
		case r.name != "" && r.name != "**" && strings.HasSuffix(r.name, "*") && isLiteral(r.name[:len(r.name)-1]):
			x.prefixes.add(r.name[:len(r.name)-1], i, r.folderOnly)
		case r.name == "" && !slices.ContainsFunc(r.parts, func(part string) bool { return !isLiteral(part) }):
			x.paths = put(x.paths, strings.Join(r.parts, "/"), i, r.folderOnly)
		case isLiteral(r.parts[0]):
			x.byFirst = addRule(x.byFirst, r.parts[0], i)
		case isLiteral(last):
			x.byName = addRule(x.byName, last, i)
		default:
			x.rest = append(x.rest, i)
		}
	}
	slices.Reverse(x.rest)
	for _, lists := range []map[string][]int{x.byFirst, x.byName} {
		for _, list := range lists {
			slices.Reverse(list)
		}
	}
}

func addRule(m map[string][]int, key string, i int) map[string][]int {
	if m == nil {
		m = map[string][]int{}
	}
	m[key] = append(m[key], i)
	return m
}

// find returns the index of the last rule that matches, or -1.
func (x *ignoreIndex) find(rules []rule, name string, folder bool) int {
	base := name[strings.LastIndexByte(name, '/')+1:]
	best := max(x.names[base].of(folder), x.paths[name].of(folder))
	for _, n := range x.suffixes.lengths {
		if n <= len(base) {
			best = max(best, x.suffixes.rules[base[len(base)-n:]].of(folder))
		}
	}
	for _, n := range x.prefixes.lengths {
		if n <= len(base) {
			best = max(best, x.prefixes.rules[base[:n]].of(folder))
		}
	}
	first, _, _ := strings.Cut(name, "/")
	has := bytesOf(base)
	for _, list := range [...][]int{x.byFirst[first], x.byName[base], x.rest} {
		for _, i := range list {
			if i < best { // also skips best itself, because best counts from one
				break
			}
			r := &rules[i]
			if r.needs.within(has) && (folder || !r.folderOnly) && r.matches(name, base) {
				best = i + 1
				break
			}
		}
	}
	return best - 1
}

// byteSet is an approximate set of bytes. Several bytes share a bit, so a missing bit proves that a byte is
// missing, but a set bit proves nothing.
type byteSet uint64

func (s byteSet) within(has byteSet) bool { return s&^has == 0 }

func bytesOf(text string) (s byteSet) {
	for i := range len(text) {
		s |= 1 << (text[i] & 63)
	}
	return s
}

// neededBytes returns the bytes that every name matching the pattern contains.
func neededBytes(pattern string) (s byteSet) {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '*', '?':
		case '[':
			for i++; i < len(pattern) && pattern[i] != ']'; i++ {
				if pattern[i] == '\\' {
					i++
				}
			}
		case '\\':
			if i++; i < len(pattern) {
				s |= 1 << (pattern[i] & 63)
			}
		default:
			s |= 1 << (pattern[i] & 63)
		}
	}
	return s
}
