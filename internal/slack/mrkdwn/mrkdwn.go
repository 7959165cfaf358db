// Package mrkdwn turns Markdown into the text format of Slack's messages.
//
// [Convert] renders what a model wrote. Nothing in its result mentions a person, a group or a channel: Slack knows such
// mentions by angle brackets, which Convert only writes around addresses of the web and of mail. [Split] divides a
// converted text into messages.
package mrkdwn

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// parser reads the Markdown that models write: CommonMark with tables, task lists, struck text and bare addresses.
var parse = func() parser.Parser {
	return goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser()
}()

// joint is a character without a width. Slack formats a part of a word only if one stands beside the marks, and does
// not take a mark for one if it follows.
const joint = "\u200b"

// Convert returns Markdown in Slack's format.
func Convert(markdown string) string {
	source := []byte(clean(markdown))
	r := &renderer{source: source}
	r.blocks(parse.Parse(text.NewReader(source)), 0)
	return strings.TrimSpace(r.out.String())
}

// clean removes characters that a text should not have: control characters, and those that the converter adds itself.
func clean(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\r\n", "\n")
	return strings.Map(func(c rune) rune {
		if c == '\u200b' || unicode.IsControl(c) && c != '\n' && c != '\t' {
			return -1
		}
		return c
	}, s)
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Escape returns a text that Slack shows as it is, without links and mentions.
func Escape(s string) string { return escaper.Replace(s) }

type renderer struct {
	source []byte
	out    strings.Builder
	last   rune // the last character of out
	bold   bool // within bold text
	italic bool
	struck bool
	closed bool // a mark was closed just now
}

func (r *renderer) write(s string) {
	if s == "" {
		return
	}
	first, _ := utf8.DecodeRuneInString(s)
	if r.closed && isWord(first) {
		r.out.WriteString(joint)
	}
	r.closed = false
	r.out.WriteString(s)
	r.last, _ = utf8.DecodeLastRuneInString(s)
}

func isWord(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }

// within renders into a text apart.
func (r *renderer) within(render func(*renderer)) string {
	inner := &renderer{source: r.source, bold: r.bold, italic: r.italic, struck: r.struck}
	render(inner)
	return inner.out.String()
}

// blocks renders the blocks in a node with empty lines between them.
func (r *renderer) blocks(n ast.Node, depth int) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		s := strings.TrimRight(r.within(func(in *renderer) { in.block(c, depth) }), "\n")
		if s == "" {
			continue
		}
		if r.out.Len() > 0 {
			r.write("\n\n")
		}
		r.write(s)
	}
}

// maxDepth is the deepest list or quotation that is shown as one.
const maxDepth = 12

func (r *renderer) block(n ast.Node, depth int) {
	switch n := n.(type) {
	case *ast.Heading:
		r.bold = true
		if s := strings.TrimSpace(r.within(func(in *renderer) { in.inlines(n) })); s != "" {
			r.write("*" + s + "*")
		}
	case *ast.List:
		r.list(n, depth)
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		r.code(n)
	case *ast.Blockquote:
		r.quote(n, depth)
	case *ast.ThematicBreak:
		r.write("──────────")
	case *ast.HTMLBlock:
		s := r.lines(n)
		if n.HasClosure() {
			s += string(n.ClosureLine.Value(r.source))
		}
		r.write(plain(strings.TrimSpace(s)))
	case *east.Table:
		r.table(n)
	default:
		r.inlines(n)
	}
}

func (r *renderer) lines(n ast.Node) string {
	var b strings.Builder
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		b.Write(line.Value(r.source))
	}
	return b.String()
}

// Fence is the line before and after a block of code.
const Fence = "```"

func (r *renderer) code(n ast.Node) { r.fenced(r.lines(n)) }

// fenced writes a block of code. A fence in the code itself is broken up, so that it does not end the block.
func (r *renderer) fenced(code string) {
	code = strings.ReplaceAll(strings.TrimRight(code, "\n"), Fence, "`"+joint+"`"+joint+"`")
	r.write(Fence + "\n" + Escape(code) + "\n" + Fence)
}

func (r *renderer) quote(n ast.Node, depth int) {
	s := r.within(func(in *renderer) { in.blocks(n, depth+1) })
	if depth >= maxDepth {
		r.write(s)
		return
	}
	r.write("> " + strings.ReplaceAll(s, "\n", "\n> "))
}

func (r *renderer) list(n *ast.List, depth int) {
	number := n.Start
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		mark := "• "
		switch {
		case n.IsOrdered():
			mark = fmt.Sprintf("%d. ", number)
			number++
		case depth%2 == 1:
			mark = "◦ "
		}
		s := r.within(func(in *renderer) { in.item(c, depth) })
		if r.out.Len() > 0 {
			r.write("\n")
		}
		indent := strings.Repeat(" ", 4)
		if depth+1 >= maxDepth {
			indent = ""
		}
		r.write(mark + strings.ReplaceAll(s, "\n", "\n"+indent))
	}
}

// item renders the blocks of a list's item, each on a line.
func (r *renderer) item(n ast.Node, depth int) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		s := r.within(func(in *renderer) { in.block(c, depth+1) })
		if r.out.Len() > 0 {
			r.write("\n")
		}
		r.write(s)
	}
}

// table renders a table as a block of code with columns of equal width.
func (r *renderer) table(n *east.Table) {
	var rows [][]string
	var widths []int
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			s := strings.Join(strings.Fields(r.textOf(cell)), " ")
			if len(cells) == len(widths) {
				widths = append(widths, 0)
			}
			widths[len(cells)] = max(widths[len(cells)], runewidth.StringWidth(s))
			cells = append(cells, s)
		}
		rows = append(rows, cells)
	}
	var b strings.Builder
	for i, cells := range rows {
		b.WriteString(tableRow(cells, widths, n.Alignments) + "\n")
		if i == 0 {
			rule := make([]string, len(widths))
			for j, w := range widths {
				rule[j] = strings.Repeat("-", w)
			}
			b.WriteString(strings.Join(rule, "-+-") + "\n")
		}
	}
	r.fenced(b.String())
}

func tableRow(cells []string, widths []int, how []east.Alignment) string {
	out := make([]string, len(widths))
	for i, w := range widths {
		s := ""
		if i < len(cells) {
			s = cells[i]
		}
		space := w - runewidth.StringWidth(s)
		left := 0
		if i < len(how) && how[i] == east.AlignRight {
			left = space
		} else if i < len(how) && how[i] == east.AlignCenter {
			left = space / 2
		}
		out[i] = strings.Repeat(" ", left) + s + strings.Repeat(" ", space-left)
	}
	return strings.TrimRight(strings.Join(out, " | "), " ")
}

// textOf returns the text of a node without its formatting and escapes.
func (r *renderer) textOf(n ast.Node) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Value(r.source))
		case *ast.String:
			b.Write(n.Value)
		case *ast.AutoLink:
			b.Write(n.Label(r.source))
		case *ast.RawHTML:
			b.WriteString(" ")
		}
		return ast.WalkContinue, nil
	})
	return unescape(b.String())
}

func (r *renderer) inlines(n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		r.inline(c)
	}
}

func (r *renderer) inline(n ast.Node) {
	switch n := n.(type) {
	case *ast.Text:
		r.text(string(n.Value(r.source)))
		switch {
		case n.HardLineBreak(), n.SoftLineBreak():
			r.write("\n")
		}
	case *ast.String:
		r.text(string(n.Value))
	case *ast.CodeSpan:
		if s := strings.ReplaceAll(strings.ReplaceAll(r.codeOf(n), "\n", " "), "`", "ˋ"); strings.TrimSpace(s) != "" {
			r.marked("`", Escape(s))
		}
	case *ast.Emphasis:
		r.emphasis(n)
	case *east.Strikethrough:
		was := r.struck
		r.struck = true
		s := r.within(func(in *renderer) { in.inlines(n) })
		r.struck = was
		r.format("~", s, was)
	case *ast.Link:
		r.link(string(n.Destination), r.within(func(in *renderer) { in.inlines(n) }))
	case *ast.Image:
		r.link(string(n.Destination), plain(r.textOf(n)))
	case *ast.AutoLink:
		address := string(n.URL(r.source))
		if n.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(address, "mailto:") {
			address = "mailto:" + address
		}
		r.link(address, plain(string(n.Label(r.source))))
	case *ast.RawHTML:
		var b strings.Builder
		for i := range n.Segments.Len() {
			s := n.Segments.At(i)
			b.Write(s.Value(r.source))
		}
		if s := b.String(); strings.HasPrefix(strings.ToLower(s), "<br") {
			r.write("\n")
		} else {
			r.write(plain(s))
		}
	case *east.TaskCheckBox:
		if n.IsChecked {
			r.write("☑ ")
		} else {
			r.write("☐ ")
		}
	default:
		r.inlines(n)
	}
}

func (r *renderer) codeOf(n ast.Node) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Value(r.source))
		}
	}
	return b.String()
}

func (r *renderer) emphasis(n *ast.Emphasis) {
	mark, state := "_", &r.italic
	if n.Level >= 2 {
		mark, state = "*", &r.bold
	}
	was := *state
	*state = true
	s := r.within(func(in *renderer) { in.inlines(n) })
	*state = was
	r.format(mark, s, was)
}

// format writes formatted text. Slack formats within one line only and knows no format within itself.
func (r *renderer) format(mark, s string, already bool) {
	if already || strings.TrimSpace(s) == "" {
		r.write(s)
		return
	}
	for i, line := range strings.Split(s, "\n") {
		if i > 0 {
			r.write("\n")
		}
		core := strings.TrimSpace(line)
		if core == "" {
			continue
		}
		r.marked(mark, core)
	}
}

// marked writes a text between two marks, also in the middle of a word.
func (r *renderer) marked(mark, s string) {
	if isWord(r.last) || r.closed {
		r.closed = false
		r.write(joint)
	}
	r.write(mark + s + mark)
	r.closed = true
}

// schemes are the beginnings of addresses that become links. Anything else in angle brackets could be a mention.
var schemes = []string{"http://", "https://", "mailto:"}

func (r *renderer) link(address, label string) {
	label = strings.TrimSpace(strings.ReplaceAll(label, "\n", " "))
	address = unescape(address)
	u, err := url.Parse(address)
	if err != nil || !isWeb(u) {
		r.write(label)
		if a := plain(address); a != label && a != "" {
			r.write(" (" + a + ")")
		}
		return
	}
	target := strings.NewReplacer("|", "%7C", "<", "%3C", ">", "%3E", " ", "%20", "\n", "", "\t", "").Replace(address)
	target = strings.ReplaceAll(target, "&", "&amp;")
	if strings.HasPrefix(label, "<") { // a link within a link
		r.write(label)
		return
	}
	label = strings.ReplaceAll(label, "|", "¦")
	if label == "" || label == target || "mailto:"+label == target {
		r.write("<" + target + ">")
		return
	}
	r.write("<" + target + "|" + label + ">")
}

func isWeb(u *url.URL) bool {
	for _, s := range schemes {
		if strings.HasPrefix(strings.ToLower(u.String()), s) {
			return u.Host != "" || u.Opaque != ""
		}
	}
	return false
}

// text writes plain text.
func (r *renderer) text(s string) { r.write(plainAfter(r.last, unescape(s))) }

func plain(s string) string { return plainAfter(0, s) }

// plainAfter escapes a text, and follows marks that would begin a format with a joint.
func plainAfter(before rune, s string) string {
	var b strings.Builder
	runes := []rune(s)
	for i, c := range runes {
		b.WriteRune(c)
		next := ' '
		if i+1 < len(runes) {
			next = runes[i+1]
		}
		if strings.ContainsRune("*_~`", c) && !isWord(before) && !unicode.IsSpace(next) {
			b.WriteString(joint)
		}
		before = c
	}
	return Escape(b.String())
}
