package s3blob

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/berthdev/berth/internal/blob"
)

// write is one Put. A conditional write has an id, which is stored with the object. If an attempt succeeded but its
// response was lost, the server refuses the next attempt, and the id shows that the object is the result of this
// write.
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

// idName is the metadata key under which an object has the id of its write.
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

// settle decides whether a failed write took effect. It reads the object if an earlier attempt may have written it.
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
