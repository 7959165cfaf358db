// Package api has the JSON types of Berth's HTTP API: requests and answers, the problem document that reports each
// error ([Problem]) and the table of problem codes ([Codes]).
//
// It imports only the standard library, so that clients can depend on it without other packages.
package api
