package acptest

// Inside is the address of the model's service in sandboxes, for their services.
const Inside = "127.0.0.1:8788"

// url is the address that agents use.
const url = "http://" + Inside

// Env returns the environment that connects an agent to the model's service at Inside.
func Env(name string) []string { return agents[name].env }

// connection is what connects an agent to a model's service.
type connection struct {
	env []string
}

var agents = map[string]connection{
	"goose": {env: []string{
		"GOOSE_PROVIDER=openai", "GOOSE_MODEL=fake-large", "OPENAI_HOST=" + url, "OPENAI_API_KEY=dummy", "GOOSE_CONTEXT_LIMIT=128000",
	}},
	"opencode": {env: []string{"OPENCODE_CONFIG_CONTENT=" + openCode}},
}

// openCode is the configuration of OpenCode, and of Kilo Code.
const openCode = `{"provider":{"fake":{"npm":"@ai-sdk/openai-compatible","options":{"baseURL":"` + url + `/v1","apiKey":"dummy"},` +
	`"models":{"fake-large":{"tool_call":true,"limit":{"context":200000,"output":8000}}}}},"model":"fake/fake-large",` +
	`"small_model":"fake/fake-large","autoupdate":false}`
