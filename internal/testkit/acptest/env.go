package acptest

import (
	"slices"

	"github.com/berthdev/berth/internal/acp/profile"
)

// Inside is the address of the model's service in sandboxes, for their services.
const Inside = "127.0.0.1:8788"

// url is the address that agents use.
const url = "http://" + Inside

// Env returns the environment that connects an agent to the model's service at Inside.
func Env(name string) []string { return slices.Clone(agents[name].env) }

// Files returns the files that connect an agent to the model's service, by their names below the directory of its
// state.
func Files(name string) map[string]string { return agents[name].files }

// Command returns the agent's command line; nil: that of its profile.
func Command(name string) []string { return agents[name].command }

// connection is what connects an agent to a model's service.
type connection struct {
	env     []string
	files   map[string]string
	command []string
}

var agents = map[string]connection{
	"claude": {env: []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=dummy", "CLAUDE_CODE_MAX_RETRIES=2"}},
	"codex": {
		env: []string{"MODEL_PROVIDER=fake", "FAKE_KEY=dummy"},
		files: map[string]string{"config.toml": "model = \"fake-large\"\nmodel_provider = \"fake\"\n" +
			"[model_providers.fake]\nname = \"fake\"\nbase_url = \"" + url + "/v1\"\nenv_key = \"FAKE_KEY\"\nwire_api = \"responses\"\n"},
	},
	"gemini": {env: []string{"GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_API_KEY=dummy"}},
	"goose": {env: []string{
		"GOOSE_PROVIDER=openai", "GOOSE_MODEL=fake-large", "OPENAI_HOST=" + url, "OPENAI_API_KEY=dummy", "GOOSE_CONTEXT_LIMIT=128000",
	}},
	"opencode": { // reading its own list of models takes a third of its start
		env:   []string{"OPENCODE_CONFIG_CONTENT=" + openCode, "OPENCODE_MODELS_PATH=" + profile.Base + "/opencode/models.json"},
		files: map[string]string{"models.json": "{}"},
	},
	"kilo": {env: []string{"KILO_CONFIG_CONTENT=" + openCode}},
	"qwen": {env: []string{"OPENAI_BASE_URL=" + url + "/v1", "OPENAI_API_KEY=dummy", "OPENAI_MODEL=fake-large"}},
	"copilot": {env: []string{
		"COPILOT_PROVIDER_BASE_URL=" + url + "/v1", "COPILOT_PROVIDER_API_KEY=dummy", "COPILOT_MODEL=fake-large", "COPILOT_OFFLINE=true",
	}},
	"pi": {files: map[string]string{
		"models.json": `{"providers":{"fake":{"baseUrl":"` + url + `/v1","api":"openai-completions","apiKey":"dummy","models":[` +
			`{"id":"fake-large","name":"fake-large","reasoning":false,"input":["text"],"contextWindow":200000,"maxTokens":8000,` +
			`"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0}}]}}}`,
		"settings.json": `{"defaultProvider":"fake","defaultModel":"fake-large"}`,
	}},
	"cline": {
		env: []string{"CLINE_API_KEY=dummy", "CLINE_PROVIDER=openai-compatible"},
		files: map[string]string{"data/settings/providers.json": `{"version":1,"lastUsedProvider":"openai-compatible","providers":{"openai-compatible":` +
			`{"settings":{"provider":"openai-compatible","apiKey":"dummy","baseUrl":"` + url + `/v1","model":"fake-large"},"tokenSource":"manual","updatedAt":"2026-01-01T00:00:00.000Z"}}}`},
	},
	"kimi": {files: map[string]string{"config.toml": "default_model = \"fake\"\n[models.fake]\nprovider = \"fake\"\nmodel = \"fake-large\"\nmax_context_size = 200000\n" +
		"[providers.fake]\ntype = \"openai\"\nbase_url = \"" + url + "/v1\"\napi_key = \"dummy\"\n"}},
	"grok": {
		env:     []string{"XAI_API_KEY=dummy"},
		command: []string{"/bin/sh", "-c", "exec grok agent --no-leader --xai-api-base-url " + url + "/v1 --model fake-large \"$@\" stdio", "grok"},
	},
}

// openCode is the configuration of OpenCode, and of Kilo Code.
const openCode = `{"provider":{"fake":{"npm":"@ai-sdk/openai-compatible","options":{"baseURL":"` + url + `/v1","apiKey":"dummy"},` +
	`"models":{"fake-large":{"tool_call":true,"attachment":true,"modalities":{"input":["text","image"],"output":["text"]},"limit":{"context":200000,"output":8000}}}}},"model":"fake/fake-large",` +
	`"small_model":"fake/fake-large","autoupdate":false}`
