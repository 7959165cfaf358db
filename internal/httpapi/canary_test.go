package httpapi

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
)

// Nothing secret that a request can carry gets into the log, at any level, in any form.
func TestLogHoldsNoSecret(t *testing.T) {
	s := newSite(t)
	const canary = "canary/of+the environment"
	stray := auth.Generate()
	env := fmt.Sprintf(`{"name":"box","env":{"TOKEN":%q}}`, canary)
	made := into[api.NewKey](s.post(keysPath, `{"label":"ci"}`).is(http.StatusCreated))
	for _, c := range []call{
		{method: http.MethodPost, path: sandboxesPath, key: made.Secret, body: env},
		{method: http.MethodPost, path: sandboxesPath, key: made.Secret, body: env, header: map[string]string{idempotencyHeader: "k"}},
		{method: http.MethodPost, path: sandboxesPath, key: made.Secret, body: env + "}"},
		{method: http.MethodPost, path: sandboxesPath, key: made.Secret, body: strings.Replace(env, `"name"`, `"nmae"`, 1)},
		{path: sandboxesPath + "/box", key: made.Secret},
		{path: sandboxesPath, key: stray},
		{path: sandboxesPath, header: map[string]string{"X-API-Key": stray}},
		{path: sandboxesPath, header: map[string]string{"Authorization": "Basic " + stray}},
		{path: sandboxesPath + "?api_key=" + stray, key: made.Secret},
		{path: "/nothing?api_key=" + stray},
		{method: http.MethodDelete, path: sandboxesPath + "/box", key: made.Secret},
	} {
		s.do(c)
	}
	if len(s.log.lines(t, "request")) < 10 {
		t.Fatal("nothing is logged: the test looks in the wrong place")
	}
	for _, secret := range []string{canary, made.Secret, stray, s.admin} {
		for _, form := range []string{secret, url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret))} {
			if strings.Contains(s.log.String(), form) {
				t.Errorf("the log holds %q", form)
			}
		}
	}
}
