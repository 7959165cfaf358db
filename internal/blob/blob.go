// Package blob is the seam between Berth and whatever keeps objects: a directory, S3.
//
// A [Store] keeps immutable objects under keys and changes the few that move by compare-and-swap: a Put
// may ask that there be no object yet, or that the one there have a given [Tag]. Not every store that
// speaks S3 keeps that promise, so [Probe] tries it; where it fails, whoever writes needs a lock of their
// own. Keys are relative slash paths, as [CheckKey] wants them. Implementations are in the packages
// below, and open finds the one that an address means; all of them pass the suite in blobtest.
package blob

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// Errors of a Store. Everything else means that the store could not be asked, or that it is not known
// what became of the request.
var (
	ErrNotFound     = errors.New("no such object")
	ErrPrecondition = errors.New("the object is not as the request expects")
	ErrNotModified  = errors.New("the object has not changed")
	ErrRange        = errors.New("the range is not in the object")
)

// Tag is an opaque name of one state of an object: while the tag is the same, so are the bytes. Writing
// other bytes gives another tag; writing the same ones may.
type Tag string

// Store keeps objects. It is safe for concurrent use and honours the context's deadline. Whatever it
// reports as written or deleted is so on stable storage.
type Store interface {
	// Get reads an object, or a part of it. The body must be closed; an error while it is read means that
	// the rest is unknown. A body that ends without an error is whole.
	Get(ctx context.Context, key string, o GetOptions) (*Object, error)

	// Put writes the first size bytes of r as an object, which becomes visible whole or not at all, also
	// when r fails or ends early. Large ones are sent in parts, several at once, with bounded memory.
	// ErrPrecondition means that nothing was written. After any other failure the object may have been
	// written, now or later by a request that is still on its way: read it to find out. What r reads from
	// may be used again when Put has returned.
	Put(ctx context.Context, key string, r io.Reader, size int64, o PutOptions) (Tag, error)

	// Copy makes an object under another key, or replaces the one that is there, without the bytes
	// passing through here where the store can.
	Copy(ctx context.Context, from, to string) error

	// List yields the objects whose keys begin with prefix, in the order of their keys' bytes. With
	// ListOptions.Folders, keys are cut after the next slash and each such folder is yielded once. What
	// others put there under names that are no keys is left out. A yielded error ends the sequence: an
	// unreadable list is not an empty list.
	List(ctx context.Context, prefix string, o ListOptions) iter.Seq2[Entry, error]

	// Delete removes objects. One that is not there is no error.
	Delete(ctx context.Context, keys ...string) error

	// String is the store's address without secrets, for people.
	String() string
}

// GetOptions narrow a Get. A range may end behind the object's end, and then ends there; one that begins
// there or behind is ErrRange, except at 0.
type GetOptions struct {
	Offset, Length int64 // a Length of 0 reads to the end
	IfNoneMatch    Tag   // the state that the caller knows: then ErrNotModified
}

// Object is an object that is being read.
type Object struct {
	Body io.ReadCloser
	Size int64 // of the whole object
	Tag  Tag
	At   time.Time // as Entry.At
}

// PutOptions are conditions of a Put, at most one of them.
type PutOptions struct {
	IfAbsent bool // there must be no such object
	IfMatch  Tag  // the object must be there, in this state
}

// ListOptions narrow a List.
type ListOptions struct {
	After   string // only entries whose Key is behind this text
	Folders bool
}

// Entry is one line of a list.
type Entry struct {
	Key    string
	Size   int64
	Tag    Tag
	At     time.Time // when it was written, by the store's clock; never earlier, perhaps later for one that was copied
	Folder bool      // Key ends with a slash and stands for everything below it
}
