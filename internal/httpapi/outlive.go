//go:build !seeded_caller

package httpapi

// outlives says that what a request with an Idempotency-Key asked for goes on when its caller is gone.
const outlives = true
