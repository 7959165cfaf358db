package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/berthdev/berth/internal/testkit/s3test"
)

// gate stands before an S3 server and lets every request through as a lesser store would take it: without
// its conditions, as some do that know none, or without leave to delete. It signs what it changes anew.
type gate struct {
	target string

	unconditional bool
	noDeletes     atomic.Bool
	hangs         atomic.Bool // requests get no answer
	refused       atomic.Int64
}

func newGate(t *testing.T, b s3test.Bucket, unconditional bool) (*gate, s3test.Bucket) {
	t.Helper()
	u, err := url.Parse(b.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{target: u.Host, unconditional: unconditional}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	b.Endpoint = server.URL
	return g, b
}

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.noDeletes.Load() && (r.Method == http.MethodDelete || r.Method == http.MethodPost && r.URL.Query().Has("delete")) {
		g.refused.Add(1)
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>`)
		return
	}
	if g.hangs.Load() {
		<-r.Context().Done()
		return
	}
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host, out.RequestURI = "http", g.target, g.target, ""
	if r.ContentLength == 0 {
		out.Body = nil
	}
	if g.unconditional && r.Method != http.MethodGet {
		out.Header.Del("If-Match")
		out.Header.Del("If-None-Match")
	}
	out.Header.Del("Authorization")
	who := aws.Credentials{AccessKeyID: s3test.AccessKey, SecretAccessKey: s3test.SecretKey}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	err := signer.SignHTTP(r.Context(), who, out, r.Header.Get("X-Amz-Content-Sha256"), "s3", s3test.Region, time.Now())
	var answer *http.Response
	if err == nil {
		answer, err = http.DefaultTransport.RoundTrip(out)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}

// onS3 is the environment of a server whose object store is a bucket.
func onS3(env []string, b s3test.Bucket) []string {
	env = append(env[:len(env):len(env)], "BERTH_OBJECT_STORE="+b.URL("berth"))
	for name, value := range s3test.Env() {
		env = append(env, name+"="+value)
	}
	return env
}
