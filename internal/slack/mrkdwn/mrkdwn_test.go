package mrkdwn

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestConvert(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "Hello there.", "Hello there."},
		{"bold", "a **bold** word, __also__", "a *bold* word, *also*"},
		{"italic", "an *italic* word, _also_", "an _italic_ word, _also_"},
		{"bold and italic", "***both***", "_*both*_"},
		{"bold in bold", "**a __b__ c**", "*a b c*"},
		{"struck", "~~gone~~", "~gone~"},
		{"part of a word", "foo**bar**baz", "foo\u200b*bar*\u200bbaz"},
		{"bold over lines", "**one\ntwo**", "*one*\n*two*"},
		{"snake case", "my_long_name and 2 * 3 * 4", "my_long_name and 2 * 3 * 4"},
		{"escaped marks", `\*not bold\* and \_not italic\_`, "*\u200bnot bold* and _\u200bnot italic_"},
		{"heading", "# Title\n\ntext", "*Title*\n\ntext"},
		{"bold heading", "## **Title** of `it`", "*Title of `it`*"},
		{"link", "[docs](https://example.com/a?b=1&c=2)", "<https://example.com/a?b=1&amp;c=2|docs>"},
		{"link with bold", "[**docs**](https://example.com)", "<https://example.com|*docs*>"},
		{"bare link", "see https://example.com/x.", "see <https://example.com/x>."},
		{"www", "see www.example.com", "see <http://www.example.com|www.example.com>"},
		{"mail", "<ann@example.com>", "<mailto:ann@example.com>"},
		{"image", "![a chart](https://example.com/c.png)", "<https://example.com/c.png|a chart>"},
		{"link to a file", "[main](./main.go)", "main (./main.go)"},
		{"bar in a link", "[a|b](https://example.com/x|y)", "<https://example.com/x%7Cy|a¦b>"},
		{"list", "- one\n- two\n", "• one\n• two"},
		{"nested list", "- one\n  - deep\n    - deeper\n- two", "• one\n    ◦ deep\n        • deeper\n• two"},
		{"ordered", "3. three\n4. four", "3. three\n4. four"},
		{"ordered with nested", "1. one\n   - a\n   - b\n2. two", "1. one\n    ◦ a\n    ◦ b\n2. two"},
		{"loose list", "- one\n\n  more\n- two", "• one\n    more\n• two"},
		{"tasks", "- [x] done\n- [ ] open", "• ☑ done\n• ☐ open"},
		{"code span", "run `ls -l <dir>`", "run `ls -l &lt;dir&gt;`"},
		{"code span with backtick", "``a`b``", "`aˋb`"},
		{"fence", "```go\nif a < b && c {\n}\n```", "```\nif a &lt; b &amp;&amp; c {\n}\n```"},
		{"fence in a fence", "````\n```\ninner\n```\n````", "```\n`\u200b`\u200b`\ninner\n`\u200b`\u200b`\n```"},
		{"open fence", "```\nhalf", "```\nhalf\n```"},
		{"indented code", "    x := 1", "```\nx := 1\n```"},
		{"marks in a fence", "```\n**a** _b_ [x](y)\n```", "```\n**a** _b_ [x](y)\n```"},
		{"quote", "> said\n> twice", "> said\n> twice"},
		{"quote in a quote", "> a\n>> b", "> a\n> \n> > b"},
		{"rule", "a\n\n---\n\nb", "a\n\n──────────\n\nb"},
		{"table", "| a | long |\n|---|-----:|\n| one | 1 |\n| **two** | `22` |", "```\na   | long\n----+-----\none |    1\ntwo |   22\n```"},
		{"table with wide characters", "| 名 | n |\n|:-:|---|\n| 日本 | x |", "```\n 名  | n\n-----+--\n日本 | x\n```"},
		{"break", "a<br>b", "a\nb"},
		{"html", "<b>x</b> & <i>", "&lt;b&gt;x&lt;/b&gt; &amp; &lt;i&gt;"},
		{"html block", "<div>\nx\n</div>", "&lt;div&gt;\nx\n&lt;/div&gt;"},
		{"reference", "&lt;tag&gt; &copy;", "&lt;tag&gt; ©"},
		{"emoji", "done :tada: 🎉", "done :tada: 🎉"},
		{"control characters", "a\x00b\x1b[31mc\r\nd", "ab[31mc\nd"},
		{"empty", " \n\t\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Convert(c.in); got != c.want {
				t.Errorf("%q became\n%q, want\n%q", c.in, got, c.want)
			}
		})
	}
}

// brackets are all things in angle brackets.
var brackets = regexp.MustCompile(`<[^>]*>?`)

// harmless are links, the only things that may be in angle brackets.
var harmless = regexp.MustCompile(`^<(https?://|mailto:)[^<>|]*(\|[^<>|]*)?>$`)

func checkHarmless(s string) error {
	for _, found := range brackets.FindAllString(s, -1) {
		if !harmless.MatchString(found) {
			return fmt.Errorf("%q is in %q", found, s)
		}
	}
	return nil
}

func TestNoMentions(t *testing.T) {
	for _, in := range []string{
		"<!channel>", "<!here|here>", "<@U123>", "<#C1|general>", "<!subteam^S1>", "[x](!channel)", "[x](<!channel>)", "[x](@U1)", "[x](#C1)",
		"`<!channel>`", "```\n<!channel>\n```", "| <!channel> |\n|---|\n| <@U1> |", "[<!channel>](https://example.com)", "![<@U1>](https://example.com)",
		"[x](https://example.com/><!channel>)", "<https://example.com|<!channel>>", "&lt;!channel&gt;", "&#60;!channel&#62;", "\\<!channel\\>",
		"[x](&lt;!channel&gt;)", "[x](https://a/%3E%3C!channel%3E)", "<a href=\"x\"><!channel></a>", "<div>\n<!channel>\n</div>", "<!channel\n>", "<http://<!channel>>",
		"[a](https://example.com \"<!channel>\")", "[x]: <!channel>\n\n[x]", "<mailto:!channel>", "[x](mailto:<!channel>)", "[![x](https://a.b/c)](https://d.e/f)",
	} {
		if err := checkHarmless(Convert(in)); err != nil {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func pieces() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{
			"<", ">", "!channel", "@U1", "#C1", "|", "[", "]", "(", ")", "https://a.example/", "mailto:", "`", "```", "\n", "\n\n", "    ", "- ", "1. ", "> ", "**", "*", "_", "~~",
			"&lt;", "&#60;", "&amp;", "\\", "word", " ", "|---|", "| a | b |\n|---|---|\n", "# ", "![", "<br>", "<!--", "-->", "🎉", "é", "\t", "www.a.example",
		}), 0, 60).Draw(t, "parts")
		return strings.Join(parts, "")
	})
}

func TestAnythingIsHarmless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := pieces().Draw(t, "text")
		got := Convert(in)
		if err := checkHarmless(got); err != nil {
			t.Fatalf("%q: %v", in, err)
		}
		limit := rapid.IntRange(20, 200).Draw(t, "limit")
		for _, part := range Split(got, limit) {
			if size(part) > limit {
				t.Fatalf("%q: a part of %d characters, limit %d", in, size(part), limit)
			}
			if strings.Count(part, Fence)%2 != strings.Count(got, Fence)%2 && strings.Count(got, Fence)%2 == 0 {
				t.Fatalf("%q: the part %q leaves a fence open", in, part)
			}
		}
	})
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		name, in string
		limit    int
		want     []string
	}{
		{"short", "one", 10, []string{"one"}},
		{"paragraphs", "one two\n\nthree four", 14, []string{"one two", "three four"}},
		{"lines", "one two\nthree four", 15, []string{"one two", "three four"}},
		{"words", "one two three four", 15, []string{"one two", "three four"}},
		{"one word", strings.Repeat("x", 20), 14, []string{"xxxxxxxxxx", "xxxxxxxxxx"}},
		{"fence", "```\none\ntwo\nthree\n```", 18, []string{"```\none\ntwo\n```", "```\nthree\n```"}},
		{"link", "abcdef <https://x.example|y> z", 27, []string{"abcdef", "<https://x.example|y> z"}},
		{"escape", "aaaaaaaa&amp;b", 13, []string{"aaaaaaaa", "&amp;b"}},
		{"wide characters", "🎉🎉🎉🎉🎉🎉", 10, []string{"🎉🎉🎉", "🎉🎉🎉"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Split(c.in, c.limit); strings.Join(got, "·") != strings.Join(c.want, "·") {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestSplitKeepsEverything checks that a long answer arrives complete.
func TestSplitKeepsEverything(t *testing.T) {
	var b strings.Builder
	for i := range 2_000 {
		fmt.Fprintf(&b, "line %d of the answer\n", i)
		if i%50 == 49 {
			b.WriteString("\n```\ncode\n```\n\n")
		}
	}
	all := strings.Join(Split(Convert(b.String()), 3_000), "\n")
	for i := range 2_000 {
		if strings.Count(all, fmt.Sprintf("line %d of the answer", i)) != 1 {
			t.Fatalf("line %d is there %d times", i, strings.Count(all, fmt.Sprintf("line %d of", i)))
		}
	}
}

func TestDeepNesting(t *testing.T) {
	for _, unit := range []string{"> ", "- ", "* _", "[", "("} {
		if got := Convert(strings.Repeat(unit, 5_000) + "x"); len(got) > 2_000_000 {
			t.Errorf("%q became %d bytes", unit, len(got))
		}
	}
}
