//go:build seeded_webhookinside

package hook

// anywhere lets webhooks call what is inside the server's own network: a bug on purpose, which tests must find.
const anywhere = true
