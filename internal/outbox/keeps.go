//go:build !seeded_forget

package outbox

// keeps says that a message which was not delivered stays in the outbox.
const keeps = true
