package httpapi

// The paths, headers and limits of the API, as its clients know them.
const (
	sandboxesPath     = "/api/v1/sandboxes"
	projectsPath      = "/api/v1/projects"
	oneProject        = projectsPath + "/{project_id}"
	conversationsPath = "/api/v1/conversations"
	accountsPath      = "/api/v1/accounts"
	agentsPath        = "/api/v1/agents"
	keysPath          = "/api/v1/keys"
	hostsPath         = "/api/v1/hosts"
	templatesPath     = "/api/v1/templates"
	usagePath         = "/api/v1/usage"

	idempotencyHeader = "Idempotency-Key"
	replayedHeader    = "Idempotency-Replayed"
	requestIDHeader   = "X-Request-Id"
	problemType       = "application/problem+json"
	tarType           = "application/x-tar"

	defaultOutput = 1 << 20
	scrollback    = 64 << 10
	maxUpload     = 1 << 30
	maxArchive    = 8 << 30
	maxCursorTime = 253402300800_000000
)
