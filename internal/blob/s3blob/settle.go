package s3blob

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/berthdev/berth/internal/blob"
)

// write is one Put. A conditional one has an id, which the object keeps: when an attempt succeeded and its
// answer was lost, the next attempt is refused, and only the id tells that it was by our own hand.
type write struct {
	blob.PutOptions
	id string
}

func newWrite(o blob.PutOptions) *write {
	w := &write{PutOptions: o}
	if o != (blob.PutOptions{}) {
		w.id = rand.Text()
	}
	return w
}

// idName is the id's name in the object's metadata.
const idName = "berth-write"

func (w *write) metadata() map[string]string {
	if w.id == "" {
		return nil
	}
	return map[string]string{idName: w.id}
}

func (w *write) ifNoneMatch() *string {
	if !w.IfAbsent {
		return nil
	}
	return aws.String("*")
}

func (w *write) ifMatch() *string {
	if w.IfMatch == "" {
		return nil
	}
	return aws.String(string(w.IfMatch))
}

// settle finds out what became of a write that failed.
func (s *Store) settle(ctx context.Context, key string, w *write, c *call, failure error) (blob.Tag, error) {
	no := refused(failure, w.PutOptions)
	switch {
	case no && !c.unsure:
		return "", blob.ErrPrecondition
	case !no && code(failure) != "NoSuchUpload", w.id == "", !c.unsure:
		return "", failure
	}
	now, err := s.head(ctx, key)
	switch {
	case err == nil && now.Metadata[idName] == w.id:
		return blob.Tag(*now.ETag), nil
	case err != nil:
		return "", fmt.Errorf("%w: %w", errUnsure, s.classify(err).Err)
	}
	return "", errUnsure
}
