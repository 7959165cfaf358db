package api

// Ready is the answer of /readyz: the server's readiness, and the checks that it depends on.
type Ready struct {
	Status  string  `json:"status" enum:"ready,degraded,not_ready,draining" doc:"degraded: the server works, but some checks warn"`
	Version string  `json:"version"`
	Checks  []Check `json:"checks"`
}

// Health is the answer of /healthz. An answer means that the process is alive.
type Health struct {
	Status  string `json:"status" enum:"ok"`
	Version string `json:"version"`
}

// Check is the result of one check of /readyz or 'berth doctor'.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status" enum:"ok,warning,failed"`
	Detail string `json:"detail,omitempty"`
	Fix    string `json:"fix,omitempty" doc:"How to fix it"`
}
