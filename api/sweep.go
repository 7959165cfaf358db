package api

import "time"

// SweepRequest is the request for a sweep.
type SweepRequest struct {
	DryRun bool `json:"dry_run,omitempty" doc:"Only report; change nothing"`
}

// Sweep is the result of a sweep.
type Sweep struct {
	DryRun  bool          `json:"dry_run"`
	At      time.Time     `json:"at"`
	Took    float64       `json:"took_seconds"`
	Drivers []DriverSweep `json:"drivers"`
	Keys    int64         `json:"keys_forgotten" doc:"Expired idempotency keys"`
	Holds   int64         `json:"holds_expired"`
	Places  int64         `json:"places_expired" doc:"Expired quota reservations"`
}

// DriverSweep is the result of a sweep for one driver.
type DriverSweep struct {
	Driver     string         `json:"driver"`
	Instances  int            `json:"instances" doc:"Number of instances that the driver listed"`
	Unreadable int            `json:"unreadable" doc:"Instances without a Berth label; left alone"`
	Foreign    int            `json:"foreign" doc:"Instances of another Berth installation; left alone"`
	Findings   []SweepFinding `json:"findings"`
	Error      string         `json:"error,omitempty" doc:"Why the list could not be read; nothing was changed"`
}

// SweepFinding is one difference between a driver's list of instances and the records.
type SweepFinding struct {
	Kind      string `json:"kind" enum:"orphan,stray,left,missing"`
	SandboxID string `json:"sandbox_id"`
	Instance  string `json:"instance"`
	Action    string `json:"action" enum:"ended,settled,waits,kept,failed"`
	Detail    string `json:"detail,omitempty"`
}
