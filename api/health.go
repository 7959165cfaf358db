package api

// Ready is the answer of /readyz: whether the server can do its work, and each thing that it needs.
type Ready struct {
	Status  string  `json:"status" enum:"ready,degraded,not_ready,draining" doc:"degraded: it works, without something that the checks name"`
	Version string  `json:"version"`
	Checks  []Check `json:"checks"`
}

// Health is the answer of /healthz: the process lives.
type Health struct {
	Status  string `json:"status" enum:"ok"`
	Version string `json:"version"`
}

// Check is one thing that was looked at, by /readyz or by 'berth doctor'.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status" enum:"ok,warning,failed"`
	Detail string `json:"detail,omitempty"`
	Fix    string `json:"fix,omitempty" doc:"What to do about it"`
}
