// Package httpapi is Berth's HTTP server.
//
// [New] makes the [Handler] for all routes; [Server] listens, serves and drains. Each resource has a package
// (sandboxes, execs, projects, conversations and others), and package middleware has the middlewares. A request
// passes the middlewares in the order in which Handler.wrap lists them; their results are stored in the request's
// exchange. Handlers take and return wire types of package api and contain no rules of the domain. Every error is
// answered as an [api.Problem]; the text of internal errors is only logged.
package httpapi
