// Package store keeps Berth's records in SQLite (embedded, one server per data directory) or
// PostgreSQL (any number of replicas), with one SQL text for both.
//
// [Open] opens and migrates a database. What belongs to a tenant is reached through [DB.In], so that
// forgetting the tenant does not compile: sandboxes ([Scope.Intend], [Scope.Want], [Scope.Delete],
// [Scope.ByOwner]), accounts, agents, API keys, idempotency keys ([Scope.ClaimKey]) and the outbox.
// What the engine does across tenants hangs on [DB] itself: [DB.Lease], [DB.Commit], [DB.Due],
// [DB.Hold].
//
// Requests say what is wanted, in single statements that never disturb a lease holder. The holder
// alone writes state, and only while the row still carries its lease's epoch: a holder that lost its
// lease gets [sandbox.ErrStale]. No transaction here is ever open over anything but the database.
//
// Times that the store sets, and every expiry it judges, are by the database's clock: PostgreSQL's
// own, the process's for SQLite. Every error that leaves is a [sandbox.Error].
package store
