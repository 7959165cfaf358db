// Package access finds sandboxes for the caller of a request: [Sandboxes] returns a record or a handle on it, and has the
// rules that several resources share.
package access
