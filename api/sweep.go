package api

import "time"

// SweepRequest asks for a sweep.
type SweepRequest struct {
	DryRun bool `json:"dry_run,omitempty" doc:"Find, and do nothing about it"`
}

// Sweep is what a sweep found and did.
type Sweep struct {
	DryRun  bool          `json:"dry_run"`
	At      time.Time     `json:"at"`
	Took    float64       `json:"took_seconds"`
	Drivers []DriverSweep `json:"drivers"`
	Keys    int64         `json:"keys_forgotten" doc:"Idempotency keys past their time"`
	Holds   int64         `json:"holds_expired"`
	Places  int64         `json:"places_expired" doc:"Reserved places that nobody prolonged"`
}

// DriverSweep is what a sweep found at one driver.
type DriverSweep struct {
	Driver     string         `json:"driver"`
	Instances  int            `json:"instances" doc:"Listed by the driver"`
	Unreadable int            `json:"unreadable" doc:"Listed without a key of ours; left alone"`
	Foreign    int            `json:"foreign" doc:"Of another installation of Berth; left alone"`
	Findings   []SweepFinding `json:"findings"`
	Error      string         `json:"error,omitempty" doc:"The list could not be read to its end: nothing was done"`
}

// SweepFinding is one thing that does not fit.
type SweepFinding struct {
	Kind      string `json:"kind" enum:"orphan,stray,left,missing"`
	SandboxID string `json:"sandbox_id"`
	Instance  string `json:"instance"`
	Action    string `json:"action" enum:"ended,settled,waits,kept,failed"`
	Detail    string `json:"detail,omitempty"`
}
