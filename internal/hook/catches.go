//go:build !seeded_hookpanic

package hook

// catches says that a hook's panic is an error, not the end of the server.
const catches = true
