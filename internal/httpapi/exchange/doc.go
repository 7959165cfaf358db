// Package exchange has the state of one request and its answer. [Of] returns the [Exchange] from the request's
// context, with its route, its caller and its session. [Fail] answers with an error as a [Problem].
package exchange
