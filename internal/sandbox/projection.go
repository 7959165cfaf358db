package sandbox

// ProjectStatus returns the state's name in the project API.
func (s State) ProjectStatus() string { return projections[s].project }

// ThreadStatus returns the state's name in the thread API.
func (s State) ThreadStatus() string { return projections[s].thread }

var projections = map[State]struct{ project, thread string }{
	Pending:     {"PENDING", "creating"},
	Creating:    {"CREATING", "creating"},
	Running:     {"RUNNING", "active"},
	Unhealthy:   {"UNHEALTHY", "resuming"},
	Stopping:    {"STOPPED", "paused"},
	Stopped:     {"STOPPED", "paused"},
	Starting:    {"CREATING", "resuming"},
	Archived:    {"STOPPED", "paused"},
	Terminating: {"TERMINATED", "destroyed"},
	Terminated:  {"TERMINATED", "destroyed"},
	Failed:      {"ERROR", "error"},
}
