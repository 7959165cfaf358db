package cli

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// TestChatOnARealMachine talks with the demo agent in a real sandbox while the server is killed, cancels a
// turn, and finds everything afterwards.
func TestChatOnARealMachine(t *testing.T) {
	testkit.Proves(t, "C3", "C4")
	real := newReal(t)
	chat := func(when string, then func(), words ...string) (result, string) {
		t.Helper()
		s, out, aside := real.shell(), &screenful{}, &screenful{}
		s.deps.Stdout, s.deps.Stderr = out, aside
		ended := make(chan result, 1)
		go func() { ended <- s.berth(append([]string{"chat"}, words...)...) }()
		testkit.Eventually(t, 60*time.Second, func() error {
			if !strings.Contains(aside.String(), when) {
				return fmt.Errorf("it said %q and %q", out, aside)
			}
			return nil
		})
		then()
		r := <-ended
		return result{r.code, out.String(), aside.String()}, aside.String()
	}

	r, aside := chat("⏺ bash", func() {
		real.end(syscall.SIGKILL)
		real.start()
	}, "run for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.3; done")
	if r.code != 0 || strings.Count(r.out, "It printed:\n\n1\n2\n3\n4\n5\n6\n7\n8\n") != 1 || strings.Count(aside, "⏺ bash") != 1 {
		t.Errorf("exit %d\n%s\n%s", r.code, r.out, aside)
	}
	contains(t, "stderr", aside, "the connection was lost; trying to come back", "\n↑ ")

	r, aside = chat("⏺ bash", func() { _ = syscall.Kill(os.Getpid(), syscall.SIGINT) }, "--continue", "run sleep 600")
	if r.code != 130 {
		t.Errorf("exit %d\n%s\n%s", r.code, r.out, aside)
	}
	contains(t, "stderr", aside, "cancelling the turn", "the turn was cancelled", "\n↑ ")

	s := real.shell()
	list := decode[api.List[api.Message]](t, s.ok("conversation", "messages", "--json"))
	var told []string
	for _, m := range list.Items {
		told = append(told, m.Role+" "+m.Status)
	}
	if strings.Join(told, ", ") != "user completed, assistant completed, user completed, assistant cancelled" {
		t.Errorf("messages: %q", told)
	}
	conv := decode[api.Conversation](t, s.ok("conversation", "show", "--json"))
	used := decode[api.UsageReport](t, s.ok("usage", "--json"))
	if conv.Status != "idle" || conv.Stats.TotalOutputTokens == 0 || used.Total.Usage.OutputTokens != conv.Stats.TotalOutputTokens || used.Total.Messages != 4 {
		t.Errorf("%+v, %+v", conv, used)
	}
	contains(t, "rm", s.ok("conversation", "rm", "-y", conv.ID), "deleted "+conv.ID)
	if r := s.berth("conversation", "show", conv.ID); r.code != 125 {
		t.Errorf("%+v", r)
	}
}
