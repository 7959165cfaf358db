//go:build seeded_caller

package httpapi

// outlives lets it end with the connection, and whoever asks again begin anew: a bug on purpose, which tests
// must find.
const outlives = false
