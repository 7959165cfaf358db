package template

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/berthdev/berth/internal/sandbox"
)

// DefaultPrefix is where the versions of a workspace are unless the template says otherwise.
const DefaultPrefix = "docs/{account}/{sandbox}/"

// placeholders are what a prefix may be made of. A sandbox that was made for no account or no agent has its
// tenant or its template in their place. An account's id is a UUID, and no tenant's name looks like one.
var placeholders = map[string]func(sandbox.Sandbox) string{
	"{tenant}":  func(s sandbox.Sandbox) string { return s.Owner.Tenant },
	"{account}": func(s sandbox.Sandbox) string { return cmp.Or(s.Account, s.Owner.Tenant) },
	"{agent}":   func(s sandbox.Sandbox) string { return cmp.Or(s.Agent, s.Spec.Template) },
	"{owner}":   ownerSegment,
	"{sandbox}": func(s sandbox.Sandbox) string { return s.ID },
}

var (
	inBraces = regexp.MustCompile(`\{[^{}]*\}`)
	literal  = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
)

// reserved are names that the versions of a workspace have below their prefix.
var reserved = []string{"HEAD", "log", "packs", "trash", "purge"}

// Workspace is what a template says about one sandbox's workspace.
type Workspace struct {
	Prefix string // of its versions in the store, with a slash at its end
	Shared bool   // other sandboxes of the tenant have the same
	Off    bool   // it is not saved
	Empty  bool   // its first incarnation starts empty, whatever is stored
	// Which versions are kept: so many of the newest, and the newest of each of so many days. Both zero: all.
	KeepLast, KeepDaily int
	Layout              string // of new versions: packed, the default, or plain

	Bytes int64 // how large its files may be together to be saved
}

// roomier is how many times a sandbox's disk its workspace may seem to be: files with holes in them seem
// larger than what they take, and nobody should read a terabyte of zeros.
const roomier = 4

func ownerSegment(s sandbox.Sandbox) string { return string(s.Owner.Kind) + "-" + s.Owner.ID }

// Workspace is what the sandbox's template says about its workspace. Its prefix is the one it was born with.
func (r *Registry) Workspace(s sandbox.Sandbox) Workspace {
	t := r.all[s.Spec.Template]
	w := Workspace{
		Off:      t.Sync != nil && !*t.Sync,
		Empty:    t.InitFromS3 != nil && !*t.InitFromS3,
		KeepLast: r.KeepLast, KeepDaily: r.KeepDaily, Layout: t.Layout,
		Bytes: roomier * t.Limits(cmp.Or(s.Spec.Profile, t.Profile)).DiskBytes,
	}
	if t.KeepLast != nil || t.KeepDaily != nil { // a policy of its own replaces the server's as a whole
		w.KeepLast, w.KeepDaily = orZero(t.KeepLast), orZero(t.KeepDaily)
	}
	if s.Prefix != "" {
		w.Prefix, w.Shared = s.Prefix, !ownsPrefix(s)
		return w
	}
	s.Account, s.Agent = "", "" // it is from before sandboxes had any
	pattern := t.pattern()
	w.Prefix, w.Shared = expand(pattern, s), !ownPrefix(pattern)
	return w
}

// Prefix is where the versions of a new sandbox are to be.
func (r *Registry) Prefix(s sandbox.Sandbox) string {
	return expand(r.all[s.Spec.Template].pattern(), s)
}

// pattern is the template's, with a history of its own for each sandbox that starts empty.
func (t Template) pattern() string {
	pattern := prefixPattern(t.S3KeyPrefix)
	if !ownPrefix(pattern) && t.InitFromS3 != nil && !*t.InitFromS3 {
		pattern += "{sandbox}/"
	}
	return pattern
}

func expand(pattern string, s sandbox.Sandbox) string {
	return inBraces.ReplaceAllStringFunc(pattern, func(name string) string { return segment(placeholders[name](s)) })
}

// ownsPrefix reports whether the sandbox's recorded prefix names it or its owner, so that no other has the same.
func ownsPrefix(s sandbox.Sandbox) bool {
	return strings.Contains(s.Prefix, "/"+segment(s.ID)+"/") || strings.Contains(s.Prefix, "/"+segment(ownerSegment(s))+"/")
}

func orZero(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// prefixPattern is the pattern as it is used: one that was not given is the default, and each ends with
// a slash.
func prefixPattern(given string) string {
	if given == "" {
		return DefaultPrefix
	}
	return strings.TrimRight(given, "/") + "/"
}

// ownPrefix reports whether no two sandboxes get the same prefix at a time.
func ownPrefix(pattern string) bool {
	return strings.Contains(pattern, "{sandbox}") || strings.Contains(pattern, "{owner}")
}

// segment writes a value so that it is one part of a key, that no two values are written alike, and that
// none is taken for something that is Berth's own. What would be too long ends with its checksum.
func segment(value string) string {
	const most = 160
	var b strings.Builder
	for i := range len(value) {
		c := value[i]
		if c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "=%02x", c)
	}
	text := b.String()
	if slices.Contains(reserved, text) {
		text = fmt.Sprintf("=%02x", text[0]) + text[1:]
	}
	if len(text) > most {
		sum := sha256.Sum256([]byte(value))
		text = text[:most-len(sum)*2-2] + "=." + hex.EncodeToString(sum[:])
	}
	return text
}

// checkPrefix refuses patterns that are none, and those with which two tenants could get at the same
// objects: the tenant comes before everything that somebody else chooses, as a part of its own, and what
// stands before it is not the beginning of another template's.
func (c *checker) checkPrefix() {
	if c.S3KeyPrefix == "" {
		return
	}
	const key = "s3_key_prefix"
	refuse := func(why, fix string) { c.refuse(key, c.S3KeyPrefix, why, fix) }
	pattern := prefixPattern(c.S3KeyPrefix)
	for _, name := range inBraces.FindAllString(pattern, -1) {
		if placeholders[name] == nil {
			refuse("has the unknown placeholder "+name, "use {tenant}, {account}, {agent}, {owner} and {sandbox}")
			return
		}
	}
	before, found := beforeTenant(pattern)
	switch {
	case len(pattern) > 200:
		refuse("is too long", "write at most 200 bytes")
	case !found:
		refuse("does not keep tenants apart", "write {tenant} or {account} as a part of its own, before every other placeholder: docs/{tenant}/{sandbox}/")
	default:
		for part := range strings.SplitSeq(strings.TrimSuffix(pattern, "/"), "/") {
			word := strings.Trim(part, ".") != "" && literal.MatchString(part) && !slices.Contains(reserved, part)
			if !word && placeholders[part] == nil {
				refuse(fmt.Sprintf("has the part %q", part), "write parts with slashes between them, each a placeholder or a word of A-Z, a-z, 0-9, '-', '_' and '.'; HEAD, log, packs, purge and trash are Berth's own")
				return
			}
		}
		c.checkBeside(before)
	}
}

// beforeTenant is what stands before the tenant, if that is a part of its own and the first that is not
// the same for everybody.
func beforeTenant(pattern string) (before string, found bool) {
	at := strings.Index(pattern, "{")
	if at < 0 || at > 0 && pattern[at-1] != '/' {
		return "", false
	}
	rest := pattern[at:]
	return pattern[:at], strings.HasPrefix(rest, "{tenant}/") || strings.HasPrefix(rest, "{account}/")
}

// checkBeside compares the beginning of the pattern with those of all other templates.
func (c *checker) checkBeside(before string) {
	others := map[string]string{"default": DefaultPrefix}
	for name, t := range c.in.all {
		others[name] = prefixPattern(t.S3KeyPrefix)
	}
	for _, name := range sortedKeys(others) {
		other, _ := beforeTenant(others[name])
		if name != c.Name && before != other && (strings.HasPrefix(before, other) || strings.HasPrefix(other, before)) {
			c.refuse("s3_key_prefix", c.S3KeyPrefix, fmt.Sprintf("begins like that of the template %s, %s, so that a tenant's name could lead into another tenant's", name, others[name]),
				"write the same before the tenant, or something else from the first letter on")
			return
		}
	}
}
