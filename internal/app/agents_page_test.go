package app_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fakellm"
	"github.com/berthdev/berth/internal/testkit/programtest"
)

// agentRow is a row of the table of agents in docs/how-to/agents.md.
type agentRow struct{ name, install, key, try, chat string }

// pageAgents are the agents of that table: how each is brought to the fake model. A new row of the page needs one
// here.
var pageAgents = map[string]struct {
	template string
	header   string // with which the agent sends its key
	scheme   string // before the key in the header
	config   string // of the template; %q is the model's address
}{
	"OpenCode": {"opencode", "Authorization", "Bearer ", `
key_env = ["OPENAI_API_KEY"]
services = {"127.0.0.1:8788" = %q}
env = {OPENCODE_CONFIG_CONTENT = '''{"provider":{"fake":{"npm":"@ai-sdk/openai-compatible","options":{"baseURL":"http://127.0.0.1:8788/v1","apiKey":"{env:OPENAI_API_KEY}"},
"models":{"fake-large":{"tool_call":true,"limit":{"context":200000,"output":8000}}}}},"model":"fake/fake-large","small_model":"fake/fake-large"}'''}
`},
	"Claude Code": {"claude_code", "X-Api-Key", "", `
key_env = ["ANTHROPIC_API_KEY"]
services = {"127.0.0.1:8788" = %q}
env = {ANTHROPIC_BASE_URL = "http://127.0.0.1:8788"}
`},
	"goose": {"goose", "Authorization", "Bearer ", `
services = {"127.0.0.1:8788" = %q}
env = {OPENAI_HOST = "http://127.0.0.1:8788"}
`},
	"Codex": {"codex", "Authorization", "Bearer ", `
services = {"127.0.0.1:8788" = %q}
env = {CODEX_CONFIG = '{"openai_base_url":"http://127.0.0.1:8788/v1","model":"fake-large"}'}
`},
	"Gemini CLI": {"gemini", "X-Goog-Api-Key", "", `
key_env = ["GEMINI_API_KEY"]
services = {"127.0.0.1:8788" = %q}
env = {GOOGLE_GEMINI_BASE_URL = "http://127.0.0.1:8788"}
`},
	"Qwen Code": {"qwen", "Authorization", "Bearer ", `
key_env = ["OPENAI_API_KEY"]
services = {"127.0.0.1:8788" = %q}
env = {OPENAI_BASE_URL = "http://127.0.0.1:8788/v1"}
`},
	// GitHub's own service gives the CLI a token in exchange for the key. Here a service of the template has the key.
	"GitHub Copilot CLI": {"copilot", "Authorization", "Bearer ", `
services = {"127.0.0.1:8788" = {url = %q, headers = {Authorization = "Bearer $COPILOT_GITHUB_TOKEN"}}}
env = {COPILOT_PROVIDER_BASE_URL = "http://127.0.0.1:8788/v1", COPILOT_PROVIDER_API_KEY = "none", COPILOT_MODEL = "fake-large", COPILOT_OFFLINE = "true"}
`},
}

var tableRow = regexp.MustCompile("(?m)^\\| ([^|]+) \\| `([^`]+)` \\| `([^`]+)` \\| `([^`]+)` \\| `([^`]+)` \\|$")

func agentsOnThePage(t *testing.T) (rows []agentRow) {
	t.Helper()
	page, err := os.ReadFile("../../docs/how-to/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range tableRow.FindAllStringSubmatch(string(page), -1) {
		rows = append(rows, agentRow{m[1], m[2], m[3], m[4], m[5]})
	}
	if len(rows) == 0 || len(rows) != len(pageAgents) {
		t.Fatalf("the page has %d agents, the test %d", len(rows), len(pageAgents))
	}
	return rows
}

// The commands of the page lead from nothing to the first answer. Where one is left out, the next one says what to type.
func TestFirstAnswerOfEachAgent(t *testing.T) {
	testkit.Proves(t, "E7")
	testkit.Proves(t, "H7")
	t.Parallel()
	for _, row := range agentsOnThePage(t)[:testkit.Size(t, "page.agents")] {
		t.Run(row.name, row.firstAnswer)
	}
}

func (row agentRow) firstAnswer(t *testing.T) {
	t.Parallel()
	a, ok := pageAgents[row.name]
	if !ok {
		t.Fatalf("there is no agent %q in the test", row.name)
	}
	const good = "sk-the-right-key-0123456789"
	model := fakellm.New(t)
	o := &office{all: t, model: model}
	config := fmt.Sprintf("[templates.%[1]s]\nextends = %[1]q\n", a.template) + a.config
	o.env = withConfig(t, local(t), fmt.Sprintf(config, behindKey(t, model.URL, a.header, a.scheme+good)))
	o.server = start(t, o.env)
	bin := t.TempDir()
	if err := os.Symlink(testkit.Binary(t), filepath.Join(bin, "berth")); err != nil {
		t.Fatal(err)
	}
	run := func(line, stdin string) (code int, said string) {
		t.Helper()
		cmd := exec.Command("/bin/sh", "-c", line)
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + bin, "BERTH_SERVER=" + o.server.url, "BERTH_API_KEY=" + testKey, "BERTH_DATA_DIR=" + value(o.env, "BERTH_DATA_DIR")}
		cmd.Stdin = strings.NewReader(stdin)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run()
		return cmd.ProcessState.ExitCode(), out.String()
	}
	lacks := func(what, line string, want ...string) {
		t.Helper()
		code, said := run(line, "")
		if code == 0 {
			t.Errorf("%s works without %s:\n%s", line, what, said)
		}
		wantWords(t, said, want...)
	}
	works := func(line, stdin string, want ...string) {
		t.Helper()
		code, said := run(line, stdin)
		if code != 0 {
			t.Errorf("%s: exit %d\n%s", line, code, said)
		}
		wantWords(t, said, want...)
		if strings.Contains(said, good) {
			t.Errorf("%s prints the key:\n%s", line, said)
		}
	}
	lacks("a key", row.chat, row.key)
	lacks("a key", row.try, row.key)
	works(row.key, "sk-a-wrong-key-0123456789\n", "is set")
	lacks("its program", row.try, row.install)
	programtest.Place(t, a.template, value(o.env, "BERTH_DATA_DIR"))
	works(row.install, "")
	lacks("the right key", row.try, "refuse", row.key)
	works(row.key, good, "is set")
	works(row.try, "", a.template+" works: it answered")
	if code, said := run("berth ls -q; berth conversation ls -q", ""); code != 0 || said != "" {
		t.Errorf("the trials left %s", said)
	}
	works(row.chat, "", "say hello")
	if _, said := run("berth exec $(berth ls -q) -- grep -rlF "+good+" /workspace", ""); said != "" {
		t.Errorf("the key is in the workspace, which is saved: %s", said)
	}
}

// behindKey is the model for callers with the key alone.
func behindKey(t *testing.T, model, header, key string) (address string) {
	t.Helper()
	to, err := url.Parse(model)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(header) == key || r.Method == http.MethodHead {
			proxy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}
