package app_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fakellm"
	"github.com/berthdev/berth/internal/testkit/programtest"
)

// A server of an ordinary user without cgroups says that memory is not limited: at its start, in its log, to those who
// ask whether it is ready, and of each sandbox.
func TestAUsersServerSaysThatMemoryIsNotLimited(t *testing.T) {
	t.Parallel()
	const words = "MEMORY IS NOT LIMITED"
	p, greeting, data := usersServer(t, asNobody, nil)
	c := p.client(t)
	if _, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "box"}); err != nil {
		t.Fatal(err)
	}
	why, err := c.Sandboxes.Explain(t.Context(), "box")
	if err != nil || !strings.Contains(strings.Join(why.Unlimited, "\n"), words) {
		t.Errorf("explained: %q, %v", why.Unlimited, err)
	}
	ready, err := c.Ready(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var details string
	for _, check := range ready.Checks {
		details += check.Detail
	}
	for place, text := range map[string]string{"greeting": greeting.String(), "log": p.logs.String(), "readiness": details} {
		if !strings.Contains(text, words) {
			t.Errorf("the %s does not say so: %s", place, text)
		}
	}
	if err := c.Sandboxes.Delete(t.Context(), "box", client.SkipSave()); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, patience, func() error {
		left, err := filepath.Glob(filepath.Join(data, "local", ".trash", "*"))
		if err != nil || len(left) > 0 {
			return fmt.Errorf("left: %v, %v", left, err)
		}
		return nil
	})
}

// ordinary is an ordinary user: its id, and a change to the command of a server that makes it run as this user.
type ordinary struct {
	id int
	as func(t *testing.T, cmd *exec.Cmd)
}

var asNobody = ordinary{int(nobody().Uid), func(_ *testing.T, cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Credential: nobody()} }}

// withSubordinateIDs is a user in a user namespace with subordinate ids, as in rootless containers. The user exists in
// the server's own mount namespace only.
var withSubordinateIDs = ordinary{65531, func(t *testing.T, cmd *exec.Cmd) {
	etc := t.TempDir()
	for name, line := range map[string]string{
		"passwd": "berthapp:x:65531:65531::/nonexistent:/bin/sh\n", "group": "berthapp:x:65531:\n",
		"subuid": "berthapp:1600000000:65536\n", "subgid": "berthapp:1600000000:65536\n",
	} {
		old, err := os.ReadFile("/etc/" + name)
		if err == nil {
			err = os.WriteFile(filepath.Join(etc, name), append(old, line...), 0o644)
		}
		if err != nil {
			t.Fatalf("is the package uidmap installed? %v", err)
		}
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = self.Close() })
	script := fmt.Sprintf(`for f in passwd group subuid subgid; do mount --bind %s/$f /etc/$f || exit 9; done
		exec setpriv --reuid 65531 --regid 65531 --clear-groups unshare --map-root-user --map-auto /proc/self/fd/3`, etc)
	cmd.Path, cmd.Args, cmd.ExtraFiles = "/usr/bin/unshare", []string{"unshare", "--mount", "sh", "-c", script}, []*os.File{self}
}}

// usersServer starts a server of an ordinary user. fill may put things into its data directory before.
func usersServer(t *testing.T, who ordinary, fill func(data string), env ...string) (p *process, greeting *logs, data string) {
	t.Helper()
	dir := publicDir(t)
	data, helper := filepath.Join(dir, "data"), filepath.Join(dir, "berth")
	program, err := os.ReadFile(testkit.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{writeProgram(helper, program), os.Mkdir(data, 0o700)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if fill != nil {
		fill(data)
	}
	for _, path := range []string{data, filepath.Join(data, "programs")} {
		if err := os.Chown(path, who.id, who.id); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = "/"
	who.as(t, cmd)
	p, out := launchAs(t, cmd, append([]string{
		"BERTH_DATA_DIR=" + data, "BERTH_LISTEN=127.0.0.1:0", "BERTH_API_KEY=" + testKey, "TMPDIR=" + data, "HOME=" + data, exeEnv + "=" + helper,
	}, env...))
	greeting = new(logs)
	if !p.greeted(io.TeeReader(out, greeting)) {
		t.Fatalf("the server did not start:\n%s", p.logs)
	}
	return p, greeting, data
}

// A real agent works in the sandboxes of an ordinary user's server, and resumes its session.
func TestAgentInAUsersSandbox(t *testing.T) {
	testkit.Proves(t, "X10")
	t.Parallel()
	t.Run("user", func(t *testing.T) { agentWorks(t, asNobody, 1) })
	t.Run("mapped", func(t *testing.T) { agentWorks(t, withSubordinateIDs, 3) })
}

// agentWorks has an agent answer twice in a sandbox with the number of ranges of uids that the tier has.
func agentWorks(t *testing.T, who ordinary, ranges int) {
	t.Helper()
	model := fakellm.New(t)
	config := filepath.Join(publicDir(t), "berth.toml")
	text := fmt.Sprintf(`
[templates.goose]
extends = "goose"
services = {"127.0.0.1:8788" = %q}
env = {OPENAI_HOST = "http://127.0.0.1:8788", OPENAI_API_KEY = "dummy"}
`, model.URL)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p, _, _ := usersServer(t, who, func(data string) { programtest.Place(t, "goose", data) }, "BERTH_CONFIG="+config)
	c := p.client(t)
	conv, _, err := c.Conversations.Create(t.Context(), api.CreateConversation{Template: "goose"})
	if err != nil {
		t.Fatal(err)
	}
	for turn := range 2 {
		want := fmt.Sprintf("turn %d as agent of %d", turn+1, ranges)
		stream, err := c.Conversations.Prompt(t.Context(), conv.ID, api.Prompt{Prompt: "§[[bash echo $(id -un) of $(wc -l </proc/self/uid_map)]][[say turn {{turn}} as {{last_result}}]]"})
		if err != nil {
			t.Fatal(err)
		}
		var last api.TurnEvent
		for e, err := range stream.Events() {
			if err != nil {
				t.Fatal(err)
			}
			last = e
		}
		m, err := c.Conversations.Message(t.Context(), conv.ID, last.MessageID)
		if err != nil || last.Status != api.TurnCompleted || !strings.Contains(m.Text(), want) {
			t.Errorf("%q, %+v, %v", m.Text(), last, err)
		}
	}
	all, err := c.Conversations.Get(t.Context(), conv.ID)
	if err == nil {
		err = c.Sandboxes.Delete(t.Context(), all.SandboxID, client.SkipSave())
	}
	if err != nil {
		t.Error(err)
	}
}
