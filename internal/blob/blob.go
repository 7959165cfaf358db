// Package blob defines the interface between Berth and object stores: a directory or S3.
//
// A [Store] keeps immutable objects under keys. The few objects that change are replaced by compare-and-swap: a Put
// may require that no object exists, or that the object has a given [Tag]. Not every store with an S3 API supports
// conditional writes; [Probe] tests it. Without them, writers need a separate lock. Keys are relative slash paths,
// checked by [CheckKey]. The implementations are in the packages below this one. Package open selects an
// implementation by its address. All of them pass the tests in blobtest.
package blob

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// Errors of a Store. Any other error means that the store did not answer, or that it is unknown whether the request
// took effect.
var (
	ErrNotFound     = errors.New("no such object")
	ErrPrecondition = errors.New("the object is not as the request expects")
	ErrNotModified  = errors.New("the object has not changed")
	ErrRange        = errors.New("the range is not in the object")
)

// Tag is an opaque identifier for the state of an object. Equal tags mean equal bytes. A write of other bytes
// changes the tag; a write of the same bytes may change it.
type Tag string

// Store keeps objects. It is safe for concurrent use and ends calls at the context's deadline. Writes and deletes
// that it confirms are on stable storage.
type Store interface {
	// Get reads an object, or a part of it. The body must be closed. An error while reading means that the rest is
	// unknown. A body that ends without an error is complete.
	Get(ctx context.Context, key string, o GetOptions) (*Object, error)

	// Put writes the first size bytes of r as an object. The object becomes visible atomically, and not at all if r
	// fails or ends early. Large objects are sent in concurrent parts with bounded memory. ErrPrecondition means
	// that nothing was written. After any other error the object may have been written, or may still be written by
	// a request that is under way; the caller must read it to find out. The caller may reuse the data of r when Put
	// has returned.
	Put(ctx context.Context, key string, r io.Reader, size int64, o PutOptions) (Tag, error)

	// Copy copies an object to another key and replaces an existing object there. The store copies the bytes itself
	// if it can.
	Copy(ctx context.Context, from, to string) error

	// List yields the objects whose keys begin with prefix, ordered by the bytes of their keys. With
	// ListOptions.Folders, keys are cut after the next slash, and each such folder is yielded once. Objects whose
	// names are not valid keys are left out. An error ends the sequence, so that callers do not take a partial list
	// for a complete one.
	List(ctx context.Context, prefix string, o ListOptions) iter.Seq2[Entry, error]

	// Delete removes objects. A missing object is not an error.
	Delete(ctx context.Context, keys ...string) error

	// String returns the store's address without secrets.
	String() string
}

// GetOptions select a part of an object, or a condition. A range that exceeds the object's end is cut. A range that
// begins at or after the end is ErrRange, except at offset 0.
type GetOptions struct {
	Offset, Length int64 // in bytes; a Length of 0 reads to the end
	IfNoneMatch    Tag   // a tag that the caller has; ErrNotModified if the object still has it
}

// Object is an object that is being read.
type Object struct {
	Body io.ReadCloser
	Size int64 // size of the whole object
	Tag  Tag
	At   time.Time // see Entry.At
}

// PutOptions are the conditions of a Put. At most one may be set.
type PutOptions struct {
	IfAbsent bool // no object may exist under the key
	IfMatch  Tag  // the object must have this tag
}

// ListOptions select a part of a list.
type ListOptions struct {
	After   string // only entries whose key sorts after this text
	Folders bool
}

// Entry is an object or a folder in a list.
type Entry struct {
	Key    string
	Size   int64
	Tag    Tag
	At     time.Time // time of the write by the store's clock; may be later for a copied object
	Folder bool      // Key ends with a slash and is a folder of objects
}
