package app_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/slacktest"
)

// zeros returns n MiB of zeros, compressed by a writer that is made around the result.
func zeros(t *testing.T, n int, around func(io.Writer) io.WriteCloser) []byte {
	t.Helper()
	var b bytes.Buffer
	w := around(&b)
	for range n {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// zipWriter writes the only file of a zip archive.
type zipWriter struct {
	io.Writer
	io.Closer
}

func zipOf(t *testing.T, n int) []byte {
	return zeros(t, n, func(to io.Writer) io.WriteCloser {
		z := zip.NewWriter(to)
		f, err := z.Create("../../../zeros")
		if err != nil {
			t.Fatal(err)
		}
		return zipWriter{f, z}
	})
}

func gzipOf(t *testing.T, n int) []byte {
	return zeros(t, n, func(to io.Writer) io.WriteCloser { return gzip.NewWriter(to) })
}

// named makes files with names as people, and people with bad intentions, give them.
func named(names ...string) (all []slacktest.File) {
	for _, name := range names {
		all = append(all, slacktest.File{Name: name, Type: "text/plain", Content: []byte("content of " + fmt.Sprintf("%q", name))})
	}
	return all
}

// attachmentNames lists the attachments of a turn, one in a line.
const attachmentNames = "run for f in attachments/*/* attachments/*/.[!.]*; do test -e \"$f\" && printf '[%s] %s\\n' \"${f##*/}\" $(wc -c < \"$f\"); done; exit 0"

// TestSlackBadInput sends a real server what a workspace can send and should not. Each message is answered once, and the
// answer says what was left out and why.
func TestSlackBadInput(t *testing.T) {
	testkit.Proves(t, "T7")
	t.Parallel()
	team, env := slackFor(t)
	p := start(t, append(local(t), env...))
	connectSlack(t, p, team, "demo")
	bomb := zipOf(t, 100)
	tooMany := named(slices.Repeat([]string{"many.txt"}, 21)...)
	for _, c := range []struct {
		name     string
		text     string // empty: list the attachments
		files    []slacktest.File
		announce int // the size that messages announce; zero: the true one
		want     []string
		never    []string
	}{
		{"100 MB attachment", "", []slacktest.File{{Name: "film.mp4", Content: make([]byte, 100<<20)}}, 0, []string{"film.mp4 (larger than 10 MiB)"}, []string{"[film.mp4]"}},
		{"size that is not true", "", []slacktest.File{{Name: "small.txt", Content: make([]byte, 60<<20)}}, 10, []string{"small.txt (it could not be read from Slack)"}, []string{"[small.txt]"}},
		{"compressed download", "", []slacktest.File{{Name: "bomb.txt", Content: gzipOf(t, 100), Encoding: "gzip"}}, 1000, []string{"bomb.txt (it could not be read from Slack)"}, []string{"[bomb.txt]"}},
		{"zip bomb", "", []slacktest.File{{Name: "bomb.zip", Content: bomb}}, 0, []string{fmt.Sprintf("[bomb.zip] %d", len(bomb))}, []string{"[zeros]"}},
		{"all files together", "", append(named("a.txt"), slices.Repeat([]slacktest.File{{Name: "b.bin", Content: make([]byte, 9<<20)}}, 3)...), 0,
			[]string{"[a.txt] 18", "[b.bin] 9437184", "[b-2.bin] 9437184", "b.bin (all files together are larger than 20 MiB)"}, []string{"[b-3.bin]"}},
		{"too many files", "", tooMany, 0, []string{"[many.txt] 21", "[many-20.txt] 21", "many.txt (at most 20 files)"}, []string{"many-21"}},
		{"names of other places", "", named("../../etc/passwd", `..\..\boot.ini`, "/etc/shadow", ".."), 0, []string{"[passwd]", "[boot.ini]", "[shadow]", "[file]"}, []string{"/etc/shadow]"}},
		{"names with other characters", "", named("a\x00b.txt", "two\nlines.txt", "\u202egpj.exe", "-rf.txt", ".bashrc", "$(reboot) `x`.sh"), 0,
			[]string{"[a_b.txt]", "[two_lines.txt]", "[_gpj.exe]", "[rf.txt]", "[bashrc]", "[__reboot__"}, nil},
		{"long name", "", named(strings.Repeat("x", 300) + ".txt"), 0, []string{"[" + strings.Repeat("x", 100) + "]"}, []string{strings.Repeat("x", 101)}},
		{"equal names", "", named("n.txt", "n.txt", "N.TXT"), 0, []string{"[n.txt]", "[n-2.txt]", "[N-3.TXT]"}, nil},
		{"names of files left out", "", []slacktest.File{{Name: "evil\u202e\n*bold* <!channel>.mp4", Content: make([]byte, 11<<20)}}, 0,
			[]string{"evil_ *bold* &lt;!channel&gt;.mp4 (larger than 10 MiB)"}, []string{"\u202e", "<!channel>"}},
		{"longest message", "run printf %s " + strings.Repeat("y", 39_900) + " | wc -c", nil, 0, []string{"39900"}, nil},
		{"control characters", "run printf '%s' 'a\x00\x1b[31mb' | wc -c", nil, 0, []string{"7"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ids []string
			for _, f := range c.files {
				size := len(f.Content)
				if c.announce != 0 {
					size = c.announce
				}
				ids = append(ids, team.AddFileAs(f, size))
			}
			text := c.text
			if text == "" {
				text = attachmentNames
			}
			ts := team.Say("U1", "C1", "", "<@"+team.BotUser+"> "+text, ids...)
			slackSettled(t, team, "C1", ts, "white_check_mark")
			all := slackAnswers(team, "C1", ts)
			if len(all) != 1 {
				t.Fatalf("%d messages: %s", len(all), shownInSlack(team, "C1", ts))
			}
			shown := textOf(t, all[0])
			for _, want := range c.want {
				if !strings.Contains(shown, want) {
					t.Errorf("%q is missing in %s", want, shown)
				}
			}
			for _, never := range c.never {
				if strings.Contains(shown, never) {
					t.Errorf("%q is in %s", never, shown)
				}
			}
		})
	}
}

// textOf returns the texts of a message's blocks.
func textOf(t *testing.T, m slacktest.Message) string {
	t.Helper()
	var blocks []struct {
		Text struct{ Text string }
	}
	if err := json.Unmarshal(m.Blocks, &blocks); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, b := range blocks {
		all = append(all, b.Text.Text)
	}
	return strings.Join(all, "\n")
}

// TestSlackRefusesEvents sends a real server requests that are forged, old or garbage, and events that it must not
// answer. Then it answers what came between them, once each.
func TestSlackRefusesEvents(t *testing.T) {
	testkit.Proves(t, "T7")
	t.Parallel()
	team, env := slackFor(t)
	p := start(t, append(local(t), env...))
	want := api.ConnectSlack{BotToken: team.BotToken, AppToken: team.AppToken, SigningSecret: team.SigningSecret, Template: "demo"}
	if _, err := p.client(t).Slack.Connect(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	first := team.Say("U1", "C1", "", "<@"+team.BotUser+"> run echo first")
	slackSettled(t, team, "C1", first, "white_check_mark")

	other := team.Say("U1", "C1", "", "not for the app")
	event := func(workspace string) []byte {
		body, err := json.Marshal(map[string]any{"type": "event_callback", "team_id": workspace, "event_id": "EvForged", "event": map[string]any{
			"type": "app_mention", "user": "U1", "channel": "C1", "ts": other, "text": "<@" + team.BotUser + "> run echo forged",
		}})
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	const kind = "application/json"
	now := time.Now()
	for _, c := range []struct {
		name, kind string
		body       []byte
		at         time.Time
		change     func(http.Header)
		status     int
		text       string
	}{
		{"unknown team", kind, event("T9"), now, nil, 401, "this Slack workspace is not connected"},
		{"no team", kind, event(""), now, nil, 401, "this Slack workspace is not connected"},
		{"wrong signature", kind, event("T1"), now, func(h http.Header) { h.Set("X-Slack-Signature", "v0="+strings.Repeat("0", 64)) }, 401, "the signature does not fit"},
		{"no signature", kind, event("T1"), now, func(h http.Header) { h["X-Slack-Signature"] = nil }, 401, "the signature does not fit"},
		{"request of six minutes ago", kind, event("T1"), now.Add(-6 * time.Minute), nil, 401, "the signature does not fit"},
		{"request of the future", kind, event("T1"), now.Add(6 * time.Minute), nil, 401, "the signature does not fit"},
		{"changed time", kind, event("T1"), now.Add(-6 * time.Minute), func(h http.Header) { h.Set("X-Slack-Request-Timestamp", fmt.Sprint(now.Unix())) }, 401, "the signature does not fit"},
		{"garbage", kind, []byte("{"), now, nil, 400, "not an event of Slack"},
		{"form without a payload", "application/x-www-form-urlencoded", []byte("a=b"), now, nil, 400, "not a payload of Slack"},
		{"two megabytes", kind, bytes.Repeat([]byte(" "), 2<<20), now, nil, 413, "too large"},
	} {
		status, text, err := team.Post(p.url+"/slack/events", c.kind, c.body, c.at, c.change)
		if err != nil || status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s: %d %q, %v; want %d %q", c.name, status, text, err, c.status, c.text)
		}
	}

	mention := func(more map[string]any) map[string]any {
		e := map[string]any{"type": "message", "channel": "C1", "channel_type": "channel", "user": "U1", "ts": other, "text": "<@" + team.BotUser + "> run echo wrong"}
		for k, v := range more {
			e[k] = v
		}
		return e
	}
	team.EventOf("T9", mention(nil))                                                                    // of a workspace that is not connected
	team.Event(mention(map[string]any{"bot_id": team.BotID, "user": team.BotUser}))                     // by the app itself
	team.Event(mention(map[string]any{"bot_id": "BOTHER", "user": "UOTHER", "subtype": "bot_message"})) // by another app
	team.Event(mention(map[string]any{"subtype": "channel_topic"}))
	team.Event(mention(map[string]any{"ts": ""}))
	team.Event(map[string]any{"type": "message", "subtype": "message_deleted", "channel": "C1", "deleted_ts": "1.1"})
	team.Event(map[string]any{"type": "message", "subtype": "message_changed", "channel": "C1"})
	team.Event(map[string]any{"type": []int{1}})
	for _, d := range team.Deliveries() {
		team.Replay(d.EventID)
	}
	team.Edit("C1", first, "<@"+team.BotUser+"> run echo edited") // it was answered
	team.Delete("C1", other)
	testkit.Eventually(t, time.Minute, func() error {
		for _, d := range team.Deliveries() {
			if d.Acked == 0 {
				return fmt.Errorf("%+v is not acknowledged", d)
			}
		}
		return nil
	})
	last := team.Say("U1", "C1", "", "<@"+team.BotUser+"> run echo last")
	slackSettled(t, team, "C1", last, "white_check_mark")
	var answers []string
	for _, m := range team.Messages("C1") {
		if m.BotID != "" {
			answers = append(answers, textOf(t, m))
		}
	}
	if len(answers) != 2 || !strings.Contains(answers[0], "first") || !strings.Contains(answers[1], "last") {
		t.Errorf("the answers are %q", answers)
	}
}
