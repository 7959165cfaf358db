package httpapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

func TestHostsAreListedAndForgotten(t *testing.T) {
	testkit.Proves(t, "X2")
	onBoth(t, func(t *testing.T, s *site) {
		made, _, err := s.db.In("default").RequestSandbox(t.Context(), store.SandboxRequest{
			Kind: sandbox.OwnerProject, Owner: "p", Host: "north", Want: sandbox.WantStopped, Spec: sandbox.Spec{Template: "default", Driver: "fake"},
		})
		if err == nil {
			_, err = s.db.Hosts().RenewHost(t.Context(), "north", "https://north.example.com", time.Now())
		}
		if err != nil {
			t.Fatal(err)
		}
		operator := s.newKey("default", api.ScopeAdmin)
		forget := func(name string) answer {
			return s.do(call{method: http.MethodPost, path: hostsPath + "/" + name, key: operator})
		}
		hosts := into[api.List[api.Host]](s.do(call{path: hostsPath, key: operator}).is(http.StatusOK)).Items
		if len(hosts) != 1 || hosts[0].Name != "north" || !hosts[0].Alive || hosts[0].Sandboxes != 1 || hosts[0].AdvertiseURL != "https://north.example.com" {
			t.Errorf("%+v", hosts)
		}
		if p := forget("north/forget").fails(api.CodeConflict); p.Hint == "" {
			t.Errorf("%+v", p)
		}
		forget("nowhere/forget?force=true").fails(api.CodeNotFound)
		done := into[api.ForgottenHost](forget("north/forget?force=true").is(http.StatusOK))
		if done.Name != "north" || len(done.Sandboxes) != 1 || done.Sandboxes[0].ID != made.ID || done.Sandboxes[0].Lost || done.Sandboxes[0].Error != "" {
			t.Errorf("%+v", done)
		}
		for _, key := range []string{s.newKey("default", api.ScopeWrite), s.newKey("other", api.ScopeAdmin)} {
			s.do(call{path: hostsPath, key: key}).fails(api.CodeForbidden)
			s.do(call{method: http.MethodPost, path: hostsPath + "/north/forget", key: key}).fails(api.CodeForbidden)
		}
	})
}
