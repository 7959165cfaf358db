package api

// Secrets lists the root secrets that the database needs, by their fingerprints.
type Secrets struct {
	Current string           `json:"current" doc:"The current encryption secret; empty if there is none yet"`
	Values  map[string]int64 `json:"values" doc:"Number of stored values by secret"`
	Plain   int64            `json:"plain" doc:"Number of stored values that are not encrypted yet"`
	Lost    []string         `json:"lost,omitempty" doc:"Secrets that were declared lost"`
}
