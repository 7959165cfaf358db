//go:build seeded_quota

package store

// oneMore goes by what the count was when the statement began, whoever counted meanwhile: a bug on
// purpose, which tests must find.
const oneMore = `(select before.used + 1 from quotas as before where before.tenant = excluded.tenant and before.kind = excluded.kind)`
