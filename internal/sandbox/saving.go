//go:build !seeded_nosave

package sandbox

// saving: what somebody may have worked in is saved before it is ended unasked, or not ended.
const saving = true
