package httpapi

import (
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/exposetest"
)

// A port of a sandbox whose provider has URLs for ports is reached through them, under Berth's own URL. The provider's URL
// is not shown, and may end at any time.
func TestSignedURLOfAnExposedPort(t *testing.T) {
	testkit.Proves(t, "T3", "E4")
	provider := exposetest.New(t)
	g := &gallery{workshop: newWorkshop(t, withRoots(t), func(o *Options) {
		o.PreviewDomain = previewDomain
		o.changeEngine(func(e *engine.Options) {
			shop, _ := e.Drivers["fake"].(*shopDriver)
			e.Drivers["fake"] = struct {
				*shopDriver
				*exposetest.Exposer
			}{shop, provider.For(shop)}
		})
	})}
	_, g.port, _ = strings.Cut(g.listening(func(out http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(out, "%s %s %s", r.RequestURI, r.Header.Get("Authorization"), r.Header.Get("Cookie"))
	}), "/ports/")
	g.host = g.hostOf(g.port, g.id)
	made, cookie := g.enter()
	if strings.Contains(made.URL, provider.URL) {
		t.Errorf("the provider's URL is shown: %s", made.URL)
	}
	for range 2 {
		if a := g.ask("/app?x=1", page(cookie)).is(http.StatusOK); string(a.body) != "/app?x=1  " {
			t.Errorf("the answer is %q", a.body)
		}
		if provider.Served() == 0 {
			t.Error("the provider was not asked")
		}
		testkit.Eventually(t, long, func() error { // a URL that is a few seconds old is not renewed
			provider.Revoke()
			if a := g.ask("/again", page(cookie)); a.status != http.StatusOK {
				return fmt.Errorf("a revoked URL of the provider is not renewed: %d %s", a.status, a.body)
			}
			return nil
		})
	}
	if a := g.do(call{path: g.box + "/ports/" + g.port + "/below", key: g.write}).is(http.StatusOK); string(a.body) != "/below  " {
		t.Errorf("the path form answers %q", a.body)
	}
	provider.Fail(exposetest.Cuts)
	provider.Revoke()
	g.do(call{method: http.MethodDelete, path: g.box + "/ports/" + g.port + "/url", key: g.write}).is(http.StatusNoContent)
	g.ask("/", map[string]string{"Cookie": cookie}).fails(api.CodeURLRevoked)
}

// The view of threads has the URL of the agent's port at the provider, and a provider that is down holds up no turn.
func TestThreadHasTheURLOfItsProvider(t *testing.T) {
	testkit.Proves(t, "T2", "T3")
	provider := exposetest.New(t)
	provider.Fail(exposetest.Hangs)
	dir := t.TempDir()
	w := &talks{agents: &scripted{gates: map[string]chan struct{}{}, cancelled: map[string]chan struct{}{}}}
	w.on(newSiteOn(t, store.Options{DataDir: dir}, t.TempDir(), func(o *Options) {
		o.inFake(func(f *fake.Driver) driver.Driver {
			return struct {
				*fake.Filed
				*exposetest.Exposer
			}{&fake.Filed{Driver: f}, provider.For(f)}
		})
	}, w.talk))
	db, err := sql.Open("sqlite", filepath.Join(dir, "berth.db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if a := w.say(slackThread+"/messages?channel=C1", "good morning"); a.Turn.Status != api.TurnCompleted {
		t.Errorf("a provider that hangs: %+v", a)
	}
	provider.Fail(exposetest.Works)
	testkit.Eventually(t, long, func() error {
		w.say(slackThread+"/messages", "and again")
		var url sql.NullString
		err := db.QueryRow(`select preview_url from sandbox_sessions`).Scan(&url)
		if err == nil && !strings.HasPrefix(url.String, provider.URL) {
			err = fmt.Errorf("the view has %q", url.String)
		}
		return err
	})
}
