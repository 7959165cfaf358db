//go:build seeded_hasty

package sandbox

// patient is off: a single failed probe ends what runs in the instance. A bug on purpose, which tests
// must find.
const patient = false
