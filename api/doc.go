// Package api holds what Berth says on the wire: the JSON types of requests and answers, the problem
// document every error is sent as ([Problem]) and the one table of problem codes ([Codes]).
//
// It imports only the standard library, so that clients may depend on it alone.
package api
