package telemetry_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/telemetry"
)

func scrape(t *testing.T, m *telemetry.Metrics) string {
	t.Helper()
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

// used returns metrics in which every series has been touched.
func used() *telemetry.Metrics {
	m := telemetry.NewMetrics("v1.2.3")
	m.ObserveRequest("GET /api/v1/sandboxes/{id}", http.MethodGet, 200, 20*time.Millisecond)
	m.ObserveDriver("fake", "create", "ok", time.Second)
	return m
}

func TestCountersAppear(t *testing.T) {
	m := used()
	m.SandboxCreates.Inc()
	m.SandboxResumes.Add(2)
	m.SessionReplacements.Add(3)
	m.HealthRetries.Add(4)
	m.PromptRetries.Add(5)
	m.LeasesHeld.Set(7)
	m.EgressIn.Add(8)
	m.EgressOut.Add(9)
	m.ObserveRequest("", "BREW", 418, time.Millisecond)
	m.ObserveRequest("", http.MethodGet, 0, time.Millisecond)
	m.ObserveDriver("fake", "create", "surprise", time.Second)
	got := scrape(t, m)
	for _, line := range []string{
		"berth_sandbox_creates_total 1",
		"berth_sandbox_resumes_total 2",
		"berth_session_replacements_total 3",
		"berth_health_retries_total 4",
		"berth_prompt_retries_total 5",
		"berth_leases_held 7",
		"berth_egress_received_bytes_total 8",
		"berth_egress_sent_bytes_total 9",
		`berth_http_requests_total{method="GET",route="GET /api/v1/sandboxes/{id}",status="2xx"} 1`,
		`berth_http_requests_total{method="other",route="unmatched",status="4xx"} 1`,
		`berth_http_requests_total{method="GET",route="unmatched",status="other"} 1`,
		`berth_http_request_duration_seconds_bucket{method="GET",route="GET /api/v1/sandboxes/{id}",le="0.025"} 1`,
		`berth_driver_calls_total{driver="fake",op="create",outcome="ok"} 1`,
		`berth_driver_calls_total{driver="fake",op="create",outcome="surprise"} 1`,
		`berth_driver_call_duration_seconds_count{driver="fake",op="create"} 2`,
	} {
		if !strings.Contains(got, "\n"+line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
	if !regexp.MustCompile(`\nberth_build_info\{go_version="go[^"]+",version="v1\.2\.3"\} 1\n`).MatchString(got) {
		t.Error("no build info")
	}
	for _, name := range []string{"berth_go_goroutines ", "berth_process_open_fds "} {
		if !strings.Contains(got, "\n"+name) {
			t.Errorf("no %s", name)
		}
	}
}

var (
	typeLine  = regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`)
	labelName = regexp.MustCompile(`[{,](\w+)="`)
)

// TestMetricNames holds the rules that Prometheus' own linter checks, for what
// Berth names itself.
func TestMetricNames(t *testing.T) {
	text := scrape(t, used())
	labels := []string{"version", "go_version", "route", "method", "status", "driver", "op", "outcome", "kind", "state", "le", "quantile"}
	for _, m := range typeLine.FindAllStringSubmatch(text, -1) {
		name, kind := m[1], m[2]
		if !strings.HasPrefix(name, "berth_") || name != strings.ToLower(name) {
			t.Errorf("%s does not begin with berth_ in lower case", name)
		}
		if !strings.Contains(text, "# HELP "+name+" ") {
			t.Errorf("%s has no help", name)
		}
		if strings.HasPrefix(name, "berth_go_") || strings.HasPrefix(name, "berth_process_") {
			continue
		}
		if (kind == "counter") != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %s", name, kind)
		}
		if kind == "histogram" && !strings.HasSuffix(name, "_seconds") {
			t.Errorf("%s is not in seconds", name)
		}
		if regexp.MustCompile(`_(ms|millis|minutes|kb|mb|percent)(_|$)`).MatchString(name) {
			t.Errorf("%s is not in a base unit", name)
		}
	}
	for line := range strings.Lines(text) {
		for _, m := range labelName.FindAllStringSubmatch(line, -1) {
			ours := !strings.HasPrefix(line, "berth_go_") && !strings.HasPrefix(line, "berth_process_")
			if ours && !slices.Contains(labels, m[1]) {
				t.Errorf("label %s is not in the list of bounded ones: %s", m[1], line)
			}
		}
	}
}

func TestLabelsStayBounded(t *testing.T) {
	m := telemetry.NewMetrics("test")
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				m.ObserveRequest(fmt.Sprintf("/leak/%d-%d", worker, i), http.MethodGet, 200, 0)
				m.ObserveDriver(fmt.Sprint(worker, i), fmt.Sprint(i), "timeout", 0)
			}
		})
	}
	wg.Wait()
	text := scrape(t, m)
	if n := strings.Count(text, "\nberth_http_requests_total{"); n != 501 {
		t.Errorf("%d request series, want 500 and one for the rest", n)
	}
	if n := strings.Count(text, "\nberth_driver_calls_total{"); n > 21*51 {
		t.Errorf("%d driver series", n)
	}
	if !strings.Contains(text, `route="other"`) {
		t.Error("the rest is not counted")
	}
}

func TestTwoServersHaveTheirOwnMetrics(t *testing.T) {
	a, b := telemetry.NewMetrics("a"), telemetry.NewMetrics("b")
	a.SandboxCreates.Inc()
	if text := scrape(t, b); !strings.Contains(text, "\nberth_sandbox_creates_total 0\n") {
		t.Error("one server counts for another")
	}
}

func TestEventNamesAreStable(t *testing.T) {
	got := []string{
		telemetry.EventResolveStart, telemetry.EventResolveReuse, telemetry.EventResolveRecreate,
		telemetry.EventHealthRetry, telemetry.EventSessionReplaced, telemetry.EventPromptOK,
		telemetry.EventPromptRecoverableFail, telemetry.EventPromptFatalFail,
	}
	want := []string{
		"sandbox.resolve.start", "sandbox.resolve.reuse", "sandbox.resolve.recreate",
		"sandbox.health.retry", "sandbox.session.replaced", "sandbox.prompt.ok",
		"sandbox.prompt.recoverable_fail", "sandbox.prompt.fatal_fail",
	}
	if !slices.Equal(got, want) {
		t.Errorf("event names %q", got)
	}
}
