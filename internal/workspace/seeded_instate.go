//go:build seeded_instate

package workspace

const stateTemp = StateFile
