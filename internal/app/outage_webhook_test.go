package app_test

import (
	"testing"

	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/testkit"
)

// The webhook version.saved is called for every turn, also for those whose versions came after an outage of the store.
func TestVersionSavedIsToldAfterAnOutage(t *testing.T) {
	testkit.Proves(t, "S7", "H4")
	t.Parallel()
	c := newCalled(t)
	h := newHanging(t, local(t), `[[templates.behind.hooks]]
phase = "version.saved"
url = "`+c.URL+`/saved"
secret = "`+hookSecret+`"
allow_private = true`)
	c.has(t, hook.OnVersionSaved, 1)
	h.hang()
	h.work()
	h.work()
	c.has(t, hook.OnVersionSaved, 1)
	h.answer()
	h.settle()
	c.has(t, hook.OnVersionSaved, 3)
}
