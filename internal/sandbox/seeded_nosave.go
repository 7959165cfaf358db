//go:build seeded_nosave

package sandbox

// saving is off: timers and archives end volumes that were not saved. A bug on purpose, which tests must
// find.
const saving = false
