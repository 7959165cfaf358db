//go:build !seeded_instate

package workspace

// stateTemp is where a state file is written before it gets its name.
const stateTemp = StateFile + ".tmp"
