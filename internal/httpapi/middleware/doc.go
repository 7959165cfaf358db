// Package middleware has the middlewares between the connection and the routes. Each handles one concern; [Chain] puts
// them around a handler. [Claims] gives requests with an Idempotency-Key one effect.
package middleware
