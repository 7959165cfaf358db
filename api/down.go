package api

// Down is the result of stopping all sandboxes of a machine.
type Down struct {
	Stopped int `json:"stopped" doc:"Running sandboxes that were stopped"`
	Failed  int `json:"failed" doc:"Sandboxes that could not be stopped; the reasons are in the server's log"`
}
