package demo

import (
	"strings"

	"github.com/berthdev/berth/internal/agent"
)

// functions is the beginning of every program. Bytes of files and commands are printed in hexadecimal digits, because
// a shell cannot quote them as JSON.
const functions = `hex() { od -An -v -tx1 | tr -d ' \n'; }
line() { printf '%s\n' "$1"; }
word() { line "$1"; sleep 0.01; }
act() { :; }
call() {
	{ (act) </dev/null 2>&1; echo $? >"$tmp.code"; } | { head -c 65537 >"$tmp"; cat >/dev/null; }
	code=$(cat "$tmp.code")
	printf '{"type":"result","code":%d,"hex":"%s"}\n' "$code" "$(hex <"$tmp")"
}
quote() {
	said=$({ printf %s "$1"; head -c 1000 "$tmp"; } | hex)
	printf '{"type":"delta","hex":"%s"}\n{"type":"text","hex":"%s"}\n' "$said" "$said"
}
tmp=${TMPDIR:-/tmp}/berth-demo-$$
trap 'rm -f "$tmp" "$tmp.code"' EXIT
trap 'exit 130' INT
file=` + sessions + `/$BERTH_SESSION
turn=$(head -c 9 "$file" 2>/dev/null | tr -dc 0-9)
turn=$((${turn:-0} + 1))
mkdir -p ` + sessions + ` && echo "$turn" >"$file"
printf '{"type":"init","turn":%d}\n' "$turn"
`

// program returns the shell program of a turn.
func program(t agent.Turn) string {
	var b strings.Builder
	b.WriteString(functions)
	say(&b, greeting(t))
	say(&b, received(t.Attachments))
	if d := understand(t.Prompt); d != nil {
		d.write(&b)
	} else {
		say(&b, echo(t.Prompt))
	}
	b.WriteString(`line '{"type":"done"}'` + "\n")
	return b.String()
}

// write adds the commands of an action to the program.
func (d *action) write(b *strings.Builder) {
	say(b, d.before)
	b.WriteString("line " + quoted(jsonLine(map[string]any{"type": "call", "name": d.tool, "input": d.input})) + "\n")
	b.WriteString("act() {\n" + d.shell + "\n}\ncall\n")
	b.WriteString(`if [ "$code" -eq 0 ]; then` + "\n:\n")
	if d.quote {
		b.WriteString("quote " + quoted(d.after) + "\n")
	} else {
		say(b, d.after)
	}
	b.WriteString("else\n:\n")
	say(b, "That did not work. The tool's result says why.")
	b.WriteString("fi\n")
}

// say adds commands to the program that print a text, word by word.
func say(b *strings.Builder, text string) {
	if text == "" {
		return
	}
	for _, word := range strings.SplitAfter(text, " ") {
		b.WriteString("word " + quoted(jsonLine(map[string]string{"type": "delta", "text": word})) + "\n")
	}
	b.WriteString("line " + quoted(jsonLine(map[string]string{"type": "text", "text": text})) + "\n")
}
