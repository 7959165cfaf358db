package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// TestSlackAccounts checks that people are matched with accounts by e-mail, else by id, and get one if they have none,
// unless the workspace was connected so that they do not.
func TestSlackAccounts(t *testing.T) {
	testkit.Proves(t, "T7")
	team, env := slackFor(t)
	team.AddUser("U2", "bob", "")
	team.AddUser("U3", "cleo", "Cleo@example.com")
	p := start(t, append(fresh(t), env...))
	c := p.client(t)
	cleo, err := c.Accounts.Create(t.Context(), api.CreateAccount{Name: "cleo", Email: "cleo@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	say := func(user, thread, text string) string {
		ts := team.Say(user, "C1", thread, "<@"+team.BotUser+"> "+text)
		testkit.Eventually(t, time.Minute, func() error {
			for _, m := range team.Messages("C1") {
				if m.TS == ts && len(m.Reactions["eyes"]) == 0 && len(m.Reactions) == 1 {
					return nil
				}
			}
			return fmt.Errorf("%q is not answered", text)
		})
		return ts
	}
	names := func() (all []string) {
		for a, err := range c.Accounts.List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, a.Name+" "+a.Email)
		}
		slices.Sort(all)
		return all
	}
	connect := func(create *bool) {
		t.Helper()
		w, err := c.Slack.Connect(t.Context(), api.ConnectSlack{BotToken: team.BotToken, AppToken: team.AppToken, Template: "demo", CreateAccounts: create})
		if err != nil || w.Accounts != (create == nil || *create) {
			t.Fatalf("%+v, %v", w, err)
		}
	}
	no := false
	connect(&no)
	say("U2", "", "without an account")
	if got := names(); len(got) != 1 {
		t.Errorf("the accounts are %q, want cleo's alone", got)
	}
	connect(nil)
	first := say("U1", "", "hello")
	say("U2", first, "me too")
	say("U2", first, "and again")
	third := say("U3", "", "hello from cleo")
	want := []string{"cleo cleo@example.com", "slack:T1:U1 ann@example.com", "slack:T1:U2 "}
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("the accounts are %q, want %q", got, want)
	}
	for a, err := range c.Accounts.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		thread, err := c.Threads("T1").Get(t.Context(), "C1:"+first)
		if err != nil || (a.ID == thread.AccountID) != (a.Name == "slack:T1:U1") {
			t.Errorf("the thread is of %s; %s is %s, %v", thread.AccountID, a.Name, a.ID, err)
		}
	}
	if thread, err := c.Threads("T1").Get(t.Context(), "C1:"+third); err != nil || thread.AccountID != cleo.ID {
		t.Errorf("cleo's thread is of %q, %v", thread.AccountID, err)
	}
}

// webServer answers every request with a text.
const webServer = `my $s = IO::Socket::INET->new(Listen => 9, LocalAddr => "127.0.0.1", LocalPort => 8123, ReuseAddr => 1) or die; $| = 1;
while (my $c = $s->accept) { while (<$c>) { last if /^\r?$/ } print $c "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nfrom the sandbox\n"; close $c }`

var slackLink = regexp.MustCompile(`<(http[^|>]+)\|port 8123>`)

// TestSlackPreviews opens a preview with the button, as a browser does. The link ends with the workspace.
func TestSlackPreviews(t *testing.T) {
	testkit.Proves(t, "T7", "E4")
	team, env := slackFor(t)
	p := start(t, append(local(t), env...))
	connectSlack(t, p, team, "demo")
	c := p.client(t)
	ts := team.Say("U1", "C1", "", "<@"+team.BotUser+"> run true")
	slackSettled(t, team, "C1", ts, "white_check_mark")
	thread, err := c.Threads("T1").Get(t.Context(), "C1:"+ts)
	if err != nil {
		t.Fatal(err)
	}
	answer := slackAnswers(team, "C1", ts)[0]
	reply := regexp.MustCompile(`"value":"([^"]+)"`).FindStringSubmatch(string(answer.Blocks))[1]
	press := func(want string) (text string) {
		t.Helper()
		before := len(team.Ephemeral())
		team.Click("U1", "C1", answer.TS, "berth_preview", reply)
		testkit.Eventually(t, time.Minute, func() error {
			all := team.Ephemeral()
			if len(all) == before {
				return fmt.Errorf("the button is not answered")
			}
			text = all[len(all)-1].Text
			return nil
		})
		if !strings.Contains(text, want) {
			t.Errorf("the button is answered with %q, want %q", text, want)
		}
		return text
	}
	press("Nothing listens on a port")
	stream, err := c.Sandboxes.ExecStream(t.Context(), thread.SandboxID, api.Exec{ExecID: "web", Command: []string{"perl", "-MIO::Socket::INET", "-e", webServer}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	link := ""
	testkit.Eventually(t, time.Minute, func() error {
		if found := slackLink.FindStringSubmatch(press("")); found != nil {
			link = strings.ReplaceAll(found[1], "&amp;", "&")
			return nil
		}
		return fmt.Errorf("the port is not listed")
	})
	if status, text := openPreview(t, p, link, ""); status != http.StatusOK || text != "from the sandbox\n" {
		t.Errorf("the preview answers %d %q", status, text)
	}
	other := strings.Replace(link, "//8123-", "//8124-", 1)
	if status, _ := openPreview(t, p, other, ""); status != http.StatusForbidden {
		t.Errorf("the link opens another port: %d", status)
	}
	press("port 8123") // the second link has the same key
	keys := 0
	for k, err := range c.Keys.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(k.Label, "Slack workspace T1") && k.RevokedAt == nil {
			keys++
		}
	}
	if keys != 1 {
		t.Errorf("%d keys of the workspace, want 1", keys)
	}
	if err := c.Slack.Disconnect(t.Context(), "T1"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		if status, text := openPreview(t, p, link, ""); status == http.StatusOK {
			return fmt.Errorf("the link of a disconnected workspace opens %q", text)
		}
		return nil
	})
}

// openPreview opens a signed URL as a browser does: with the cookie of the first answer it asks for the second. Names below
// preview.localhost are this machine.
func openPreview(t *testing.T, p *process, link, cookie string) (status int, text string) {
	t.Helper()
	at, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	own, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+own.Host+at.RequestURI(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = at.Host
	if at.Port() != own.Port() {
		t.Fatalf("%s is not at the server's port, %s", link, own.Host)
	}
	if cookie != "" {
		r.Header.Set("Cookie", cookie)
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusSeeOther && cookie == "" {
		next, err := at.Parse(res.Header.Get("Location"))
		if err != nil {
			t.Fatal(err)
		}
		set, _, _ := strings.Cut(res.Header.Get("Set-Cookie"), ";")
		return openPreview(t, p, next.String(), set)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}
