package s3blob

import (
	"context"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// demandWhole turns a response that lacks required fields into a failed attempt. The SDK decodes an empty body as
// an empty response, so a truncated list would look like an empty list.
func (s *Store) demandWhole(stack *middleware.Stack) error {
	look := func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleDeserialize(ctx, in)
		if r, ok := out.RawResponse.(*smithyhttp.Response); ok && r.StatusCode != 0 { // the SDK creates an empty response if there was none
			s.answered.Store(true)
		}
		if err != nil {
			return out, metadata, err
		}
		if what := missing(out.Result); what != "" {
			if got, ok := out.Result.(*s3.GetObjectOutput); ok {
				closeBody(got.Body)
			}
			err = &smithy.DeserializationError{Err: fmt.Errorf("it has no %s", what)}
		}
		return out, metadata, err
	}
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("BerthDemandWhole", look), middleware.Before)
}

func closeBody(body io.ReadCloser) {
	if body != nil {
		_ = body.Close()
	}
}

// missing returns the name of a required field that the response lacks, or "".
func missing(result any) string {
	switch r := result.(type) {
	case *s3.PutObjectOutput:
		return lacks("ETag", r.ETag == nil)
	case *s3.UploadPartOutput:
		return lacks("ETag", r.ETag == nil)
	case *s3.CompleteMultipartUploadOutput:
		return lacks("ETag", r.ETag == nil)
	case *s3.HeadObjectOutput:
		return lacks("ETag or length", r.ETag == nil || r.ContentLength == nil)
	case *s3.GetObjectOutput:
		return lacks("ETag or length", r.ETag == nil || r.ContentLength == nil || *r.ContentLength < 0)
	case *s3.CreateMultipartUploadOutput:
		return lacks("upload id", r.UploadId == nil || *r.UploadId == "")
	case *s3.CopyObjectOutput:
		return lacks("result", r.CopyObjectResult == nil || r.CopyObjectResult.ETag == nil)
	case *s3.UploadPartCopyOutput:
		return lacks("result", r.CopyPartResult == nil || r.CopyPartResult.ETag == nil)
	case *s3.ListObjectsV2Output:
		return lacks("end", r.Name == nil || r.IsTruncated == nil || *r.IsTruncated && r.NextContinuationToken == nil)
	}
	return ""
}

func lacks(what string, so bool) string {
	if so {
		return what
	}
	return ""
}
