package app_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/slacktest"
)

// slackFor is a Slack with a workspace, a channel and a person, and the variables of a server that uses it.
func slackFor(t *testing.T) (*slacktest.Team, []string) {
	s := slacktest.New(t)
	team := s.AddTeam("T1")
	team.AddUser("U1", "ann", "ann@example.com")
	team.AddChannel("C1", "U1")
	return team, []string{"BERTH_SLACK_API_URL=" + s.APIURL()}
}

// connectSlack connects the workspace by Socket Mode. New threads get the template.
func connectSlack(t *testing.T, p *process, team *slacktest.Team, template string) {
	t.Helper()
	_, err := p.client(t).Slack.Connect(t.Context(), api.ConnectSlack{BotToken: team.BotToken, AppToken: team.AppToken, Template: template})
	if err != nil {
		t.Fatal(err)
	}
}

// slackSettled waits until a message has the reaction that tells how its answer ended.
func slackSettled(t *testing.T, team *slacktest.Team, channel, ts, reaction string) {
	t.Helper()
	testkit.Eventually(t, 4*time.Minute, func() error {
		for _, m := range team.Messages(channel) {
			if m.TS == ts && len(m.Reactions[reaction]) == 1 && len(m.Reactions["eyes"]) == 0 {
				return nil
			}
		}
		return fmt.Errorf("%s is not there: %s", reaction, shownInSlack(team, channel, ts))
	})
}

func slackAnswers(team *slacktest.Team, channel, thread string) []slacktest.Message {
	return slices.DeleteFunc(team.Thread(channel, thread), func(m slacktest.Message) bool { return m.BotID == "" })
}

func shownInSlack(team *slacktest.Team, channel, thread string) string {
	var b strings.Builder
	for _, m := range team.Thread(channel, thread) {
		fmt.Fprintf(&b, "\n%s %q %s %v %v %v", m.User, m.Text, m.Blocks, m.Tasks, m.Files, m.Reactions)
	}
	return b.String()
}

// TestSlackInARealSandbox goes from a mention to the uploaded file, in a real sandbox.
func TestSlackInARealSandbox(t *testing.T) {
	testkit.Proves(t, "T7")
	t.Parallel()
	team, env := slackFor(t)
	p := start(t, append(local(t), env...))
	connectSlack(t, p, team, "demo")

	notes := team.AddFile("notes.txt", "text/plain", []byte("the notes of ann"))
	ts := team.Say("U1", "C1", "", "<@"+team.BotUser+"> run mkdir -p output/display; cat attachments/*/notes.txt; echo made > output/display/made.txt", notes)
	slackSettled(t, team, "C1", ts, "white_check_mark")
	all := slackAnswers(team, "C1", ts)
	if len(all) != 2 || !strings.Contains(string(all[0].Blocks), "the notes of ann") || len(all[1].Files) != 1 {
		t.Fatal(shownInSlack(team, "C1", ts))
	}
	if f := team.Files()[all[1].Files[0]]; f.Name != "made.txt" || string(f.Content) != "made\n" {
		t.Errorf("uploaded %q with %q", f.Name, f.Content)
	}

	dm := team.DM("U1")
	direct := team.Say("U1", dm, "", "run echo direct > kept; echo done")
	slackSettled(t, team, dm, direct, "white_check_mark")
	again := team.Say("U1", dm, "", "run cat kept") // another thread in Slack, and the same sandbox
	slackSettled(t, team, dm, again, "white_check_mark")
	if text := shownInSlack(team, dm, again); !strings.Contains(text, "direct") {
		t.Errorf("the second direct message has another sandbox: %s", text)
	}

	long := team.Say("U1", "C1", ts, "run sleep 300")
	testkit.Eventually(t, 2*time.Minute, func() error {
		if !strings.Contains(shownInSlack(team, "C1", ts), "sleep 300") || len(slackAnswers(team, "C1", ts)) < 3 {
			return fmt.Errorf("the turn does not run")
		}
		return nil
	})
	stop := team.Say("U1", "C1", ts, "stop")
	slackSettled(t, team, "C1", long, "x")
	slackSettled(t, team, "C1", stop, "white_check_mark")
	thread, err := p.client(t).Threads("T1").Get(t.Context(), "C1:"+ts)
	if err != nil || thread.Status != "paused" {
		t.Errorf("after the stop the thread is %+v, %v", thread, err)
	}
	wakes := team.Say("U1", "C1", ts, "run cat output/display/made.txt")
	slackSettled(t, team, "C1", wakes, "white_check_mark")
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
}

// TestSlackWithOpenCode answers messages with the real OpenCode through the real sandbox-agent.
func TestSlackWithOpenCode(t *testing.T) {
	testkit.Proves(t, "T5", "T7")
	t.Parallel()
	team, env := slackFor(t)
	chat, _ := chatEnv(t)
	p := start(t, append(chat, env...))
	connectSlack(t, p, team, "chat")
	notes := team.AddFile("notes.txt", "text/plain", []byte("the notes of ann"))
	ts := team.Say("U1", "C1", "", "<@"+team.BotUser+"> §[[bash cat attachments/*/notes.txt]][[say I read: {{last_result}}]][[write /workspace/output/display/plot.txt :: a plot]][[say All **done**.]]", notes)
	slackSettled(t, team, "C1", ts, "white_check_mark")
	all := slackAnswers(team, "C1", ts)
	if len(all) != 2 || !strings.Contains(string(all[0].Blocks), "the notes of ann") || !strings.Contains(string(all[0].Blocks), "All *done*.") || len(all[1].Files) != 1 {
		t.Fatal(shownInSlack(team, "C1", ts))
	}
	if f := team.Files()[all[1].Files[0]]; f.Name != "plot.txt" || !strings.HasPrefix(string(f.Content), "a plot") {
		t.Errorf("uploaded %q with %q", f.Name, f.Content)
	}
	dm := team.DM("U1")
	direct := team.Say("U1", dm, "", "§[[say Hello, Ann.]]")
	slackSettled(t, team, dm, direct, "white_check_mark")

	failing := team.Say("U1", "C1", ts, "§[[error 400 :: the model is out of order]]")
	slackSettled(t, team, "C1", failing, "x")
	if text := shownInSlack(team, "C1", ts); !strings.Contains(text, "This failed") || !strings.Contains(text, "out of order") {
		t.Errorf("the failure is said with %s", text)
	}
	waits := team.Say("U1", "C1", ts, "§[[bash sleep 300]][[say never]]")
	testkit.Eventually(t, 3*time.Minute, func() error {
		for _, m := range slackAnswers(team, "C1", ts) {
			for _, task := range m.Tasks {
				if strings.HasPrefix(task.Title, "bash") && task.Status == "in_progress" {
					return nil
				}
			}
		}
		return fmt.Errorf("the command does not run: %s", shownInSlack(team, "C1", ts))
	})
	stop := team.Say("U1", "C1", ts, "stop")
	slackSettled(t, team, "C1", waits, "x")
	slackSettled(t, team, "C1", stop, "white_check_mark")
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
}

// slackWindows are the points at which a server is killed while it answers in Slack.
var slackWindows = []string{"slack-received 1", "slack-acked 1", "slack-posted 1", "slack-stream-started 1", "slack-turn-posted 1", "slack-streamed 1", "slack-finished 1", "slack-uploading 1", "slack-uploaded 1"}

// TestKilledServersAnswerOnceInSlack kills one of two servers on PostgreSQL while they answer; the other one goes on. Every
// message is answered once, in order, and no file is there twice.
func TestKilledServersAnswerOnceInSlack(t *testing.T) {
	testkit.Proves(t, "T7")
	t.Parallel()
	team, more := slackFor(t)
	env := append(append(local(t), more...), "DATABASE_URL="+storetest.Postgres(t), "BERTH_LEASE_TTL=3s")
	p := start(t, env)
	connectSlack(t, p, team, "demo")
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
	root, want := "", 0
	say := func(text string) string {
		ts := team.Say("U1", "C1", root, "<@"+team.BotUser+"> run "+text)
		if root == "" {
			root = ts
		}
		want++
		return ts
	}
	for n := range testkit.Size(t, "kill.slack") {
		window := slackWindows[n%len(slackWindows)]
		team.RefuseStreams(window == "slack-posted 1") // they are started instead of posted
		pair := slackPair(t, team, append(env, killEnv+"="+window+" "+filepath.Join(t.TempDir(), "killed")))
		first := say(fmt.Sprintf("mkdir -p output/display; echo %d > output/display/%d.txt; for i in 1 2 3 4; do echo part $i of answer %d; sleep 0.6; done", n, n, want))
		// Slack sends the events of two messages in any order: the second one is said when the first is recorded.
		testkit.Eventually(t, 4*time.Minute, func() error {
			if len(pair.died) > 0 {
				return nil
			}
			for _, m := range team.Messages("C1") {
				if m.TS == first && len(m.Reactions) > 0 {
					return nil
				}
			}
			return fmt.Errorf("the message is not taken: %s", shownInSlack(team, "C1", root))
		})
		second := say(fmt.Sprintf("echo part 4 of answer %d", want))
		select {
		case <-pair.died:
		case <-time.After(4 * time.Minute):
			t.Fatalf("no server reached %s: %s", window, shownInSlack(team, "C1", root))
		}
		slackSettled(t, team, "C1", first, "white_check_mark")
		slackSettled(t, team, "C1", second, "white_check_mark")
		pair.end()
	}
	var answers []string
	uploads := map[string]int{}
	for _, m := range slackAnswers(team, "C1", root) {
		for _, f := range m.Files {
			uploads[team.Files()[f].Name]++
		}
		if len(m.Files) == 0 {
			answers = append(answers, string(m.Blocks))
		}
	}
	if len(answers) != want {
		t.Errorf("%d answers to %d messages: %s", len(answers), want, shownInSlack(team, "C1", root))
	}
	for n := range min(want, len(answers)) {
		if !strings.Contains(answers[n], fmt.Sprintf("part 4 of answer %d", n)) {
			t.Errorf("answer %d is %s", n, answers[n])
		}
		if name := fmt.Sprintf("%d.txt", n/2); uploads[name] != 1 {
			t.Errorf("%s is there %d times", name, uploads[name])
		}
	}
}

// twoServers are two servers that are connected to Slack.
type twoServers struct {
	died chan struct{} // one value for each that has ended
	end  func()        // ends the one that is left
}

func slackPair(t *testing.T, team *slacktest.Team, env []string) twoServers {
	t.Helper()
	both := []*process{start(t, env), start(t, env)}
	died := make(chan struct{}, len(both))
	for _, p := range both {
		go func() {
			_ = p.cmd.Wait()
			died <- struct{}{}
		}()
	}
	testkit.Eventually(t, time.Minute, func() error {
		if n := team.Connections(); n != len(both) {
			return fmt.Errorf("%d connections", n)
		}
		return nil
	})
	return twoServers{died, func() {
		for _, p := range both {
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
		}
		select {
		case <-died:
		case <-time.After(2 * time.Minute):
			t.Fatal("the server that was left does not end")
		}
	}}
}

// TestSlackCommands connects, checks and disconnects a workspace as an operator types it.
func TestSlackCommands(t *testing.T) {
	testkit.Proves(t, "T7", "T10")
	t.Parallel()
	team, env := slackFor(t)
	p := start(t, append(fresh(t), env...))
	berth := func(more map[string]string, args ...string) (code int, said string) {
		var out strings.Builder
		code = cli.Main(append([]string{"slack"}, args...), cli.Deps{
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out,
			Env: func(name string) (string, bool) {
				switch name {
				case "BERTH_API_KEY":
					return testKey, true
				case "BERTH_SERVER":
					return p.url, true
				}
				v, ok := more[name]
				return v, ok
			},
		})
		return code, out.String()
	}
	tokens := map[string]string{"SLACK_BOT_TOKEN": team.BotToken, "SLACK_APP_TOKEN": team.AppToken}
	for _, c := range []struct {
		env  map[string]string
		args []string
		code bool // it succeeds
		want string
	}{
		{nil, []string{"ls"}, true, "No Slack workspaces yet"},
		{nil, []string{"connect"}, false, "the bot token is missing"},
		{map[string]string{"SLACK_BOT_TOKEN": "xoxb-wrong", "SLACK_APP_TOKEN": team.AppToken}, []string{"connect"}, false, "Slack refuses the bot token: invalid_auth"},
		{tokens, []string{"connect", "--template", "nope"}, false, "nope"},
		{tokens, []string{"connect", "--template", "demo"}, true, "Team T1 (T1) is connected"},
		{nil, []string{"ls"}, true, "Team T1  socket  demo"},
		{nil, []string{"check", "T1"}, true, "T1) works"},
		{nil, []string{"check", "T9"}, false, "there is no Slack workspace T9"},
		{nil, []string{"manifest"}, true, "socket_mode_enabled: true"},
		{nil, []string{"manifest", "--events-url", "https://b.example/slack/events"}, true, `request_url: "https://b.example/slack/events"`},
		{nil, []string{"disconnect", "T1", "--yes"}, true, "disconnected"},
		{nil, []string{"disconnect", "T1", "--yes"}, false, "there is no Slack workspace T1"},
	} {
		code, said := berth(c.env, c.args...)
		if (code == 0) != c.code || !strings.Contains(said, c.want) || strings.Contains(said, team.BotToken) {
			t.Errorf("%q: %d\n%s\nwant %q", c.args, code, said, c.want)
		}
	}
	off := start(t, append(fresh(t), "SANDBOX_RUNTIME_ENABLED=false"))
	if _, err := off.client(t).Slack.Check(t.Context(), "T1"); problem(err).Code != api.CodeRuntimeDisabled {
		t.Errorf("with threads off: %v", err)
	}
}

// TestSlackEventsReachTheServer sends events and clicks through all that stands before a route: they have a signature
// and no key.
func TestSlackEventsReachTheServer(t *testing.T) {
	testkit.Proves(t, "T7")
	t.Parallel()
	team, env := slackFor(t)
	p := start(t, append(fresh(t), env...))
	if _, err := p.client(t).Slack.Connect(t.Context(), api.ConnectSlack{BotToken: team.BotToken, SigningSecret: team.SigningSecret, Template: "demo"}); err != nil {
		t.Fatal(err)
	}
	at := p.url + "/slack/events"
	if err := team.Verify(at); err != nil {
		t.Fatal(err)
	}
	team.SendTo(at, at)
	ts := team.Say("U1", "C1", "", "<@"+team.BotUser+">")
	slackSettled(t, team, "C1", ts, "white_check_mark") // the help
	team.Click("U1", "C1", ts, "berth_usage", "forged")
	testkit.Eventually(t, time.Minute, func() error {
		for _, d := range team.Deliveries() {
			if d.Acked == 0 {
				return fmt.Errorf("%+v is not acknowledged", d)
			}
		}
		return nil
	})
}
