package template

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/sandbox"
)

// DefaultPrefix is the prefix of versions in templates that set none.
const DefaultPrefix = "docs/{account}/{sandbox}/"

// placeholders are the allowed placeholders of a prefix. A sandbox without an account or agent uses its tenant or
// template instead. An account's id is a UUID, and a tenant's name never looks like a UUID.
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

// reserved are the names that Berth uses below the prefix of a workspace.
var reserved = []string{"HEAD", "log", "packs", "trash", "purge"}

// Workspace is the template's configuration for the workspace of one sandbox.
type Workspace struct {
	Prefix string // prefix of its versions in the store, with a slash at its end
	Shared bool   // other sandboxes of the tenant may have the same prefix
	Off    bool   // the workspace is not saved
	Empty  bool   // the first incarnation starts empty, even if versions exist
	NoPull bool   // no version is restored: each incarnation starts empty and continues the history
	// The versions to keep: the KeepLast newest ones, and the newest of each of the last KeepDaily days. Both zero:
	// all.
	KeepLast, KeepDaily int
	Layout              string // of new versions: packed (the default) or plain

	Bytes  int64 // size limit of all files
	Stored int64 // limit for new data of one version
}

// maxSparseRatio is the maximum ratio of the apparent size of a workspace to the sandbox's disk limit. Sparse files
// appear larger than the space that they take, but reading a terabyte of zeros takes too long.
const maxSparseRatio = 4

func ownerSegment(s sandbox.Sandbox) string { return string(s.Owner.Kind) + "-" + s.Owner.ID }

// Workspace returns the workspace configuration of the sandbox's template, with the prefix that was recorded when the
// sandbox was created.
func (r *Registry) Workspace(s sandbox.Sandbox) Workspace {
	t := r.all[s.Spec.Template]
	disk := t.Limits(cmp.Or(s.Spec.Profile, t.Profile)).DiskBytes
	w := Workspace{
		Off:      t.Sync != nil && !*t.Sync,
		Empty:    t.InitFromS3 != nil && !*t.InitFromS3,
		NoPull:   t.drops(hook.Pull) && !t.lists(hook.Pull),
		KeepLast: r.o.KeepLast, KeepDaily: r.o.KeepDaily, Layout: t.Layout,
		Bytes: maxSparseRatio * disk, Stored: 2 * disk,
	}
	if t.KeepLast != nil || t.KeepDaily != nil { // the template's policy replaces the server's as a whole
		w.KeepLast, w.KeepDaily = orZero(t.KeepLast), orZero(t.KeepDaily)
	}
	if s.Prefix != "" {
		w.Prefix, w.Shared = s.Prefix, !hasUniquePrefix(s)
		return w
	}
	s.Account, s.Agent = "", "" // no recorded prefix: the sandbox is older than accounts and agents
	pattern := t.pattern()
	w.Prefix, w.Shared = expand(pattern, s), !uniquePattern(pattern)
	return w
}

// Prefix returns the prefix for the versions of a new sandbox.
func (r *Registry) Prefix(s sandbox.Sandbox) string {
	return expand(r.all[s.Spec.Template].pattern(), s)
}

// pattern returns the template's prefix pattern. A sandbox that starts empty gets a separate history.
func (t Template) pattern() string {
	pattern := prefixPattern(t.S3KeyPrefix)
	if !uniquePattern(pattern) && t.InitFromS3 != nil && !*t.InitFromS3 {
		pattern += "{sandbox}/"
	}
	return pattern
}

func expand(pattern string, s sandbox.Sandbox) string {
	return inBraces.ReplaceAllStringFunc(pattern, func(name string) string { return segment(placeholders[name](s)) })
}

// hasUniquePrefix reports whether the recorded prefix contains the sandbox's id or its owner. No other sandbox has such
// a prefix.
func hasUniquePrefix(s sandbox.Sandbox) bool {
	return strings.Contains(s.Prefix, "/"+segment(s.ID)+"/") || strings.Contains(s.Prefix, "/"+segment(ownerSegment(s))+"/")
}

func orZero(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// prefixPattern returns the effective pattern: given, or the default if it is empty. The result ends with a slash.
func prefixPattern(given string) string {
	if given == "" {
		return DefaultPrefix
	}
	return strings.TrimRight(given, "/") + "/"
}

// uniquePattern reports whether the pattern gives each sandbox a prefix that no other one has at the same time.
func uniquePattern(pattern string) bool {
	return strings.Contains(pattern, "{sandbox}") || strings.Contains(pattern, "{owner}")
}

// segment encodes a value as one segment of an object's key. The encoding is unambiguous and never equals a reserved
// name. A long value is cut and ends with its checksum.
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

// checkPrefix refuses invalid patterns and patterns with which two tenants could share objects. The tenant must be a
// separate segment and the first placeholder. The texts before the tenant in two templates must be equal, or neither
// must be the beginning of the other.
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
		refuse("does not keep tenants apart", "write {tenant} or {account} as a separate part, before every other placeholder: docs/{tenant}/{sandbox}/")
	default:
		for part := range strings.SplitSeq(strings.TrimSuffix(pattern, "/"), "/") {
			word := strings.Trim(part, ".") != "" && literal.MatchString(part) && !slices.Contains(reserved, part)
			if !word && placeholders[part] == nil {
				refuse(fmt.Sprintf("has the part %q", part), "write parts with slashes between them, each a placeholder or a word of A-Z, a-z, 0-9, '-', '_' and '.'; HEAD, log, packs, purge and trash are Berth's own")
				return
			}
		}
		c.checkOtherPrefixes(before)
	}
}

// beforeTenant returns the text before {tenant} or {account}. found is false unless that is the first placeholder and a
// separate segment.
func beforeTenant(pattern string) (before string, found bool) {
	at := strings.Index(pattern, "{")
	if at < 0 || at > 0 && pattern[at-1] != '/' {
		return "", false
	}
	rest := pattern[at:]
	return pattern[:at], strings.HasPrefix(rest, "{tenant}/") || strings.HasPrefix(rest, "{account}/")
}

// checkOtherPrefixes compares the text before the tenant with that of every other template.
func (c *checker) checkOtherPrefixes(before string) {
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
