package api

// Down is what stopping every sandbox of a machine came to.
type Down struct {
	Stopped int `json:"stopped" doc:"Sandboxes that ran and were stopped"`
	Failed  int `json:"failed" doc:"Sandboxes that could not be stopped; the server's log says why"`
}
