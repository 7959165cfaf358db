package api

// Template describes one kind of sandbox. It never contains values of environment variables.
type Template struct {
	Name        string            `json:"name"`
	Description string            `json:"description,omitempty"`
	Default     bool              `json:"default" doc:"It is the default template"`
	BuiltIn     bool              `json:"built_in" doc:"It is a built-in template"`
	Extends     string            `json:"extends,omitempty" doc:"The template that it extends"`
	Tenants     []string          `json:"tenants,omitempty" doc:"The tenants that may use it; * means all. Only for admins of the tenant default"`
	Driver      string            `json:"driver"`
	Base        string            `json:"base" doc:"The root file system: host, the name of a base, or a directory of the server"`
	User        string            `json:"user" enum:"agent,root" doc:"Default user for commands"`
	Profile     string            `json:"profile" enum:"lite,standard,full" doc:"Default profile"`
	Resources   TemplateResources `json:"resources" doc:"The limits of the default profile"`
	KeyEnv      []string          `json:"key_env,omitempty" doc:"Variables of which the agent needs one; the first is its key"`
	MissingKey  string            `json:"missing_key,omitempty" doc:"The secret or variable without which the agent cannot work in new sandboxes of the caller's tenant; absent: none is missing"`
	EnvFrom     []string          `json:"env_from,omitempty" doc:"Names of secrets of the tenant, or variables of the server, that sandboxes get"`
	Redact      *bool             `json:"redact,omitempty" doc:"false: secrets that agents print are stored as they are"`
	Env         []string          `json:"env,omitempty" doc:"Names of the environment variables; values are never returned"`
	Mounts      []TemplateMount   `json:"mounts,omitempty" doc:"Read-only mounts of directories of the server"`
	Egress      []string          `json:"egress,omitempty" doc:"Allowed destinations; absent: none"`
	Services    []TemplateService `json:"services,omitempty" doc:"Addresses inside that the server forwards"`
	Timers      map[string]string `json:"timers,omitempty" doc:"Idle times until a sandbox is stopped, archived or deleted, if they differ from the defaults of the owner's kind"`

	Image            string   `json:"image,omitempty"`
	Runtime          string   `json:"runtime,omitempty"`
	Agent            string   `json:"agent,omitempty" doc:"The agent that the runtime acp or sandbox-agent runs" example:"goose"`
	AgentCommand     []string `json:"agent_command,omitempty"`
	Model            string   `json:"model,omitempty" doc:"The model of prompts and agents that name none; absent: the agent's choice"`
	Models           []string `json:"models,omitempty" doc:"The models that they may name; absent: any"`
	PermissionMode   string   `json:"permission_mode,omitempty" doc:"What the agent may do without asking"`
	Volume           string   `json:"volume,omitempty"`
	S3BucketName     string   `json:"s3_bucket_name,omitempty"`
	S3KeyPrefix      string   `json:"s3_key_prefix,omitempty"`
	InitFromS3       *bool    `json:"init_from_s3,omitempty"`
	Sync             *bool    `json:"sync,omitempty"`
	KeepLast         *int     `json:"keep_last,omitempty" doc:"How many of the newest versions are kept; absent: the server's setting"`
	KeepDaily        *int     `json:"keep_daily,omitempty" doc:"For how many days the newest version of each day is kept"`
	Layout           string   `json:"layout,omitempty" enum:"packed,plain" doc:"How versions are stored: files packed together, or one object per file"`
	Unreachable      string   `json:"unreachable,omitempty" enum:"wait,replace,fence"`
	UnreachableAfter string   `json:"unreachable_after,omitempty" doc:"How long an instance may be unreachable before that is done" example:"5m"`
	Turns            int      `json:"turns,omitempty"`
	MCPServers       []string `json:"mcp_servers,omitempty" doc:"Names of the MCP servers"`

	Hooks []TemplateHook `json:"hooks,omitempty" doc:"The hooks in the order in which they run, including the default ones"`
}

// TemplateResources are the limits of one sandbox.
type TemplateResources struct {
	CPU         float64 `json:"cpu" doc:"CPU cores"`
	MemoryBytes int64   `json:"memory_bytes"`
	DiskBytes   int64   `json:"disk_bytes"`
	Disk        string  `json:"disk" enum:"auto,soft,loop" doc:"How the disk limit is enforced: by the kernel if possible (auto), by watching (soft), or always by the kernel (hard)"`
	Processes   int64   `json:"processes,omitempty" doc:"Maximum number of processes; absent: the driver's default"`
}

// TemplateMount is a directory of the server that sandboxes see, read only.
type TemplateMount struct {
	Target string `json:"target" doc:"The path inside"`
	Source string `json:"source,omitempty" doc:"The path on the server. Only for admins of the tenant default"`
}

// TemplateService is an address inside a sandbox that the server forwards to an upstream address.
type TemplateService struct {
	Listen   string   `json:"listen" doc:"The address inside"`
	Upstream string   `json:"upstream,omitempty" doc:"The upstream address. Only for admins of the tenant default"`
	Headers  []string `json:"headers,omitempty" doc:"Names of the headers that the server sets on every request; values are never returned"`
	Secrets  []string `json:"secrets,omitempty" doc:"Names of the secrets or variables of the server in these headers"`
}

// TemplateHook is a hook of a template.
type TemplateHook struct {
	Name  string `json:"name"`
	Phase string `json:"phase" enum:"cold_start,message,stream_finish,version.saved,terminate"`
	Kind  string `json:"kind" enum:"builtin,command,webhook,function"`
}
