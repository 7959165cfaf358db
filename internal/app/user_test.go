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
)

// A server of an ordinary user without cgroups says that memory is not limited: at its start, in its log, to those who
// ask whether it is ready, and of each sandbox.
func TestAUsersServerSaysThatMemoryIsNotLimited(t *testing.T) {
	const words = "MEMORY IS NOT LIMITED"
	dir, who := publicDir(t), nobody()
	data, helper := filepath.Join(dir, "data"), filepath.Join(dir, "berth")
	program, err := os.ReadFile(testkit.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.WriteFile(helper, program, 0o755), os.Mkdir(data, 0o700), os.Chown(data, int(who.Uid), int(who.Gid))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: who}
	p, out := launchAs(t, cmd, []string{
		"BERTH_DATA_DIR=" + data, "BERTH_LISTEN=127.0.0.1:0", "BERTH_API_KEY=" + testKey, "TMPDIR=" + data, "HOME=" + data, exeEnv + "=" + helper,
	})
	greeting := new(logs)
	if !p.greeted(io.TeeReader(out, greeting)) {
		t.Fatalf("the server did not start:\n%s", p.logs)
	}
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
