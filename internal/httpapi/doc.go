// Package httpapi is Berth's HTTP server.
//
// [New] makes the [Handler] for all routes, [Server] listens, serves and drains. One file holds each
// resource (sandboxes, keys, accounts, agents, ops, docs) and one each middleware. A request meets
// the middlewares in the order that [New] lists them; what they find out about it collects in its
// exchange. Handlers take and return wire types of package api and hold no rules of their own. Every
// error leaves as an [api.Problem], whoever made it; the text of internal ones stays in the log.
package httpapi
