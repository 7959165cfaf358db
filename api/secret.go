package api

import "time"

// Secrets lists the root secrets that the database needs, by their fingerprints.
type Secrets struct {
	Current string           `json:"current" doc:"The current encryption secret; empty if there is none yet"`
	Values  map[string]int64 `json:"values" doc:"Number of stored values by secret"`
	Plain   int64            `json:"plain" doc:"Number of stored values that are not encrypted yet"`
	Lost    []string         `json:"lost,omitempty" doc:"Secrets that were declared lost"`
}

// Secret is a value that a tenant gives to its sandboxes by name. It never contains the value.
type Secret struct {
	Name      string    `json:"name" doc:"The name of the variable that sandboxes get"`
	Templates []string  `json:"templates" doc:"The templates of the tenant that name it; sandboxes of others do not get it"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at" doc:"When the value was set"`
}

// SetSecret is the request to create a secret or to replace its value.
type SetSecret struct {
	Value string `json:"value" minLength:"1" maxLength:"8192" doc:"The value; it is stored encrypted and never returned"`
}
