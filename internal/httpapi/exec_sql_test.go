package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/sqlcount"
	"github.com/berthdev/berth/internal/tool/tooltest"
)

// localDriver keeps its instances on this machine.
type localDriver struct{ *toolDriver }

func (localDriver) Local() {}

// A command in a running sandbox that was idle costs one read and one write, besides the check of the key.
func TestExecReadsOnceAndWritesOnce(t *testing.T) {
	sql := sqlcount.New(t, storetest.Postgres(t))
	w := &toolshop{box: tooltest.New(t)}
	w.site = newSiteOn(t, store.Options{DatabaseURL: sql.URL}, t.TempDir(), func(o *Options) {
		o.inFake(func(f *fake.Driver) driver.Driver { return localDriver{&toolDriver{f, w}} })
		o.changeEngine(func(e *engine.Options) { e.Alone = true })
	})
	box := sandboxesPath + "/" + w.ensured("p").SandboxID
	for name, run := range map[string]func(){
		"sandbox": func() { into[api.ExecResult](w.post(box+"/exec", shell("true")).is(http.StatusOK)) },
		"project": func() { w.use("bash", `{"command":"true"}`).is(http.StatusOK) },
	} {
		run() // the key is known from now on
		idle := time.Now()
		testkit.Eventually(t, long, func() error {
			if time.Since(idle) < 1500*time.Millisecond {
				return fmt.Errorf("the sandbox was used %s ago", time.Since(idle))
			}
			return nil
		})
		sql.Take()
		run()
		reads, writes, all := 0, 0, sql.Take()
		for _, text := range all {
			if strings.HasPrefix(text, "--") || strings.Contains(text, "from api_keys") {
				continue // the pool asks an idle connection, and a key is checked every second
			}
			if strings.HasPrefix(text, "select") {
				reads++
			} else {
				writes++
			}
		}
		if reads != 1 || writes != 1 {
			t.Errorf("%s: %d reads, %d writes:\n%s", name, reads, writes, strings.Join(all, "\n"))
		}
	}
}
