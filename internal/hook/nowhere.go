//go:build !seeded_webhookinside

package hook

// anywhere says that webhooks may be at any address.
const anywhere = false
