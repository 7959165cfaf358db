package app_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
)

// TestSlackAcrossMachines answers in threads whose sandboxes are on the machine of another server. That one uploads the
// files and stops the sandbox, whichever server gets the event.
func TestSlackAcrossMachines(t *testing.T) {
	testkit.Proves(t, "T7")
	t.Parallel()
	team, more := slackFor(t)
	more = append(more, "DATABASE_URL="+storetest.Postgres(t), "BERTH_SECRET_KEY=a-root-secret-of-both-machines")
	here, there := start(t, append(local(t), more...)), start(t, append(local(t), more...))
	if _, err := here.client(t).Slack.Connect(t.Context(), api.ConnectSlack{BotToken: team.BotToken, SigningSecret: team.SigningSecret, Template: "demo"}); err != nil {
		t.Fatal(err)
	}
	// A server that gets an event answers it, unless another one is faster.
	to := func(p *process) { team.SendTo(p.url+"/slack/events", p.url+"/slack/events") }
	to(here)
	root := team.Say("U1", "C1", "", "<@"+team.BotUser+"> run echo first")
	slackSettled(t, team, "C1", root, "white_check_mark")
	for n := range 4 {
		to([]*process{there, here}[n%2])
		ts := team.Say("U1", "C1", root, fmt.Sprintf("run mkdir -p output/display; echo %d > output/display/%d.txt; echo answer %d", n, n, n))
		slackSettled(t, team, "C1", ts, "white_check_mark")
	}
	uploads, answers := map[string]int{}, 0
	for _, m := range slackAnswers(team, "C1", root) {
		for _, f := range m.Files {
			uploads[team.Files()[f].Name]++
		}
		if strings.Contains(string(m.Blocks), fmt.Sprintf("answer %d", answers-1)) || answers == 0 {
			answers++
		}
	}
	for n := range 4 {
		if uploads[fmt.Sprintf("%d.txt", n)] != 1 {
			t.Errorf("the uploads are %v", uploads)
		}
	}
	if answers != 5 {
		t.Errorf("%d answers in order, want 5: %s", answers, shownInSlack(team, "C1", root))
	}
	to(there)
	stop := team.Say("U1", "C1", root, "stop")
	slackSettled(t, team, "C1", stop, "white_check_mark")
	testkit.Eventually(t, time.Minute, func() error {
		thread, err := here.client(t).Threads("T1").Get(t.Context(), "C1:"+root)
		if err == nil && thread.Status != "paused" {
			err = fmt.Errorf("the thread is %s", thread.Status)
		}
		return err
	})
}
