package hook_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/testkit"
)

// A template that this server does not know, because it was removed or another server has it, drops nothing: messages
// would be lost.
func TestOnlyATemplateDropsHooks(t *testing.T) {
	testkit.Proves(t, "H5")
	r := hook.New(hook.Options{Of: func(template string) []hook.Spec {
		return map[string][]hook.Spec{"all": hook.Defaults(), "some": {{Phase: hook.OnTerminate, Builtin: hook.Log}}, "none": {}}[template]
	}})
	for template, drops := range map[string]bool{"all": false, "some": true, "none": true, "unknown": false} {
		if got := r.Drops(template, hook.Store); got != drops {
			t.Errorf("%s: %t", template, got)
		}
	}
}

func TestWhatIsWrongWithAHook(t *testing.T) {
	for _, spec := range hook.Defaults() {
		if fault := spec.Check(); fault != nil {
			t.Errorf("%+v: %v", spec, fault)
		}
	}
	run := func(context.Context, *hook.Data) error { return nil }
	for want, spec := range map[string]hook.Spec{
		"":                                   {Phase: hook.OnMessage, Run: run, Timeout: time.Hour},
		"phase is no phase":                  {Run: run},
		" does nothing, or more than one":    {Phase: hook.OnMessage, Run: run, Builtin: hook.Push},
		"command has no program":             {Phase: hook.OnMessage, Command: []string{""}},
		"builtin is no hook that Berth has":  {Phase: hook.OnMessage, Builtin: "nope"},
		"builtin is a hook of another phase": {Phase: hook.OnMessage, Builtin: hook.Log},
		"timeout is longer than an hour":     {Phase: hook.OnMessage, Run: run, Timeout: 2 * time.Hour},
		"name is no name":                    {Phase: hook.OnMessage, Run: run, Name: "a\x7f"},
		" has a secret or allow_private":     {Phase: hook.OnMessage, Run: run, AllowPrivate: true},
		"url is no address":                  {Phase: hook.OnMessage, URL: "a"},
		"url has a user in it":               {Phase: hook.OnMessage, URL: "https://a@b"},
		"url is not https":                   {Phase: hook.OnMessage, URL: "http://b"},
		"secret is no secret to sign with":   {Phase: hook.OnMessage, URL: "https://b", Secret: "whsec_x"},
	} {
		switch fault := spec.Check(); {
		case want == "" && fault != nil:
			t.Errorf("%+v: %v", spec, fault)
		case want != "" && (fault == nil || !strings.HasPrefix(fault.Error(), want)):
			t.Errorf("%q: %v", want, fault)
		}
	}
}
