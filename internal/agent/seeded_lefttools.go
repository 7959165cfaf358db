//go:build seeded_lefttools

package agent

// sweep leaves the tools that have a session of their own: a bug on purpose, which tests must find.
const sweep = `exit 0`
