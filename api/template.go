package api

// Template is what sandboxes of one kind are made of. Values of the environment are never shown.
type Template struct {
	Name        string            `json:"name"`
	Description string            `json:"description,omitempty"`
	Default     bool              `json:"default" doc:"Whether sandboxes that name no template have this one"`
	BuiltIn     bool              `json:"built_in" doc:"Whether every Berth has a template of this name"`
	Extends     string            `json:"extends,omitempty" doc:"The template that it was made from"`
	Driver      string            `json:"driver"`
	Base        string            `json:"base" doc:"What the root is made of: host, the name of a base, or a directory of the server"`
	User        string            `json:"user" enum:"agent,root" doc:"Whom commands run as that do not say"`
	Profile     string            `json:"profile" enum:"lite,standard,full" doc:"Size of sandboxes that name none"`
	Resources   TemplateResources `json:"resources" doc:"What one sandbox of that profile may use"`
	Env         []string          `json:"env,omitempty" doc:"Names of the environment variables; values are never shown"`
	Mounts      []TemplateMount   `json:"mounts,omitempty" doc:"Directories of the server that are seen inside, read only"`
	Egress      []string          `json:"egress,omitempty" doc:"What sandboxes may connect to; absent: nothing"`
	Services    []TemplateService `json:"services,omitempty" doc:"Addresses inside that the server leads on"`
	Timers      map[string]string `json:"timers,omitempty" doc:"When an unused sandbox is stopped, archived or ended, where that differs from the owner's kind"`

	Image            string   `json:"image,omitempty"`
	Runtime          string   `json:"runtime,omitempty"`
	AgentCommand     []string `json:"agent_command,omitempty"`
	Volume           string   `json:"volume,omitempty"`
	S3BucketName     string   `json:"s3_bucket_name,omitempty"`
	S3KeyPrefix      string   `json:"s3_key_prefix,omitempty"`
	InitFromS3       *bool    `json:"init_from_s3,omitempty"`
	Sync             *bool    `json:"sync,omitempty"`
	KeepLast         *int     `json:"keep_last,omitempty" doc:"How many of the newest versions are kept; absent: as the server says"`
	KeepDaily        *int     `json:"keep_daily,omitempty" doc:"For how many days the newest version of the day is kept"`
	Layout           string   `json:"layout,omitempty" enum:"packed,plain" doc:"How new versions are stored: files packed together, or each as an object of its own"`
	Unreachable      string   `json:"unreachable,omitempty" enum:"wait,replace,fence"`
	UnreachableAfter string   `json:"unreachable_after,omitempty" doc:"How long an instance may not be reachable before that is done" example:"5m"`
	Turns            int      `json:"turns,omitempty"`
	MCPServers       []string `json:"mcp_servers,omitempty" doc:"Names of the MCP servers whose tools are there beside the built-in ones"`

	Hooks []TemplateHook `json:"hooks,omitempty" doc:"In the order in which they run, those that templates have by default included"`
}

// TemplateResources is what one sandbox may use.
type TemplateResources struct {
	CPU         float64 `json:"cpu" doc:"Cores"`
	MemoryBytes int64   `json:"memory_bytes"`
	DiskBytes   int64   `json:"disk_bytes"`
	Disk        string  `json:"disk" enum:"soft,loop" doc:"How the disk limit is held: watched from outside, or a file system's own size"`
	Processes   int64   `json:"processes,omitempty" doc:"Absent: the driver's default"`
}

// TemplateMount is a directory of the server that is seen inside.
type TemplateMount struct {
	Target string `json:"target" doc:"Where it is inside"`
	Source string `json:"source,omitempty" doc:"Where it is on the server; shown only to those who run it"`
}

// TemplateService is an address inside that the server leads on.
type TemplateService struct {
	Listen   string `json:"listen" doc:"The address inside"`
	Upstream string `json:"upstream,omitempty" doc:"Where it leads; shown only to those who run the server"`
}

// TemplateHook is something that is done at a turning point of a sandbox's life.
type TemplateHook struct {
	Name  string `json:"name"`
	Phase string `json:"phase" enum:"cold_start,message,stream_finish,version.saved,terminate"`
	Kind  string `json:"kind" enum:"builtin,command,webhook,function"`
}
