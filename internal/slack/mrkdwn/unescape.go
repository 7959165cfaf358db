package mrkdwn

import (
	"github.com/yuin/goldmark/util"
)

// unescape resolves the escapes and the character references of Markdown.
func unescape(s string) string {
	b := util.UnescapePunctuations([]byte(s))
	return string(util.ResolveEntityNames(util.ResolveNumericReferences(b)))
}
