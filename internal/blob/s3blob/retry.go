package s3blob

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const (
	maxAttempts = 12
	// maxUnanswered is the maximum number of attempts if the server has never answered. It is small, because the
	// address may be wrong and the user should see the error soon.
	maxUnanswered = 4

	maxPause = 5 * time.Second
)

// call is the state of one call of the SDK and its attempts. It implements the SDK's retryer.
type call struct {
	s      *Store
	ctx    context.Context
	begin  time.Time
	head   bool // the response has no body
	most   int  // maximum number of attempts
	failed int
	unsure bool // at least one attempt may have taken effect
}

func (s *Store) call(ctx context.Context) *call {
	return &call{s: s, ctx: ctx, begin: time.Now(), most: maxAttempts}
}

// with sets c as the retryer of an SDK operation.
func (c *call) with(o *s3.Options) { o.Retryer = c }

// IsErrorRetryable reports whether another attempt should follow the error.
func (c *call) IsErrorRetryable(err error) bool {
	c.failed++
	if !settled(err) {
		c.unsure = true
	}
	switch {
	case c.ctx.Err() != nil, !isTemporary(err), c.head && status(err) == http.StatusNotFound:
		return false
	case !c.s.answered.Load() && c.failed >= maxUnanswered && status(err) == 0:
		return false
	}
	return time.Since(c.begin) < c.s.limits.patience
}

// MaxAttempts returns the maximum number of attempts.
func (c *call) MaxAttempts() int { return c.most }

// RetryDelay returns a random delay that grows with the attempts, so that many callers do not retry at the same
// time.
func (c *call) RetryDelay(attempt int, _ error) (time.Duration, error) {
	return c.s.pause(attempt), nil
}

// pause returns the delay before the next attempt.
func (s *Store) pause(attempt int) time.Duration {
	most := min(s.limits.pause<<min(attempt, 20), maxPause)
	return most/2 + rand.N(most/2)
}

// GetRetryToken never refuses an attempt.
func (c *call) GetRetryToken(context.Context, error) (func(error) error, error) { return free, nil }

// GetInitialToken never refuses an attempt.
func (c *call) GetInitialToken() func(error) error { return free }

// GetAttemptToken never refuses an attempt.
func (c *call) GetAttemptToken(context.Context) (func(error) error, error) { return free, nil }

func free(error) error { return nil }

// status returns the error status of the response, or 0 if the response is missing or incomplete.
func status(err error) int {
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.HTTPStatusCode() >= 300 {
		return response.HTTPStatusCode()
	}
	return 0
}

// code returns the error code of S3, or "".
func code(err error) string {
	var known smithy.APIError
	if errors.As(err, &known) {
		return known.ErrorCode()
	}
	return ""
}

// settled reports whether a failed attempt certainly had no effect, because the server refused it or was not
// reached.
func settled(err error) bool {
	var op *net.OpError
	switch at := status(err); {
	case at >= 300 && at < 500:
		return true
	case at != 0:
		return false
	}
	return errors.As(err, &op) && op.Op == "dial"
}

// isTemporary reports whether another attempt may succeed.
func isTemporary(err error) bool {
	// The SDK reports this after it has corrected the clock skew.
	var opinion interface{ RetryableError() bool }
	if errors.As(err, &opinion) && opinion.RetryableError() {
		return true
	}
	switch code(err) {
	case "RequestTimeout", "SlowDown", "InternalError", "ServiceUnavailable", "Throttling", "ThrottlingException", "TooManyRequests",
		"ConditionalRequestConflict", "OperationAborted", // a concurrent request; the next attempt sees its result
		"BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody", "XMinioServerNotInitialized": // corrupted in transit
		return true
	case "NotImplemented":
		return false
	}
	switch at := status(err); {
	case at == http.StatusTooManyRequests, at == http.StatusRequestTimeout:
		return true
	case at == http.StatusNotFound:
		return code(err) == "" || code(err) == "NotFound" // a response without S3's error code was truncated
	case at >= 500:
		return at != http.StatusNotImplemented && at != http.StatusInsufficientStorage
	case at >= 300:
		return false
	}
	return isTemporaryTransport(err)
}

// isTemporaryTransport reports whether another attempt may succeed after a failure without a complete response.
func isTemporaryTransport(err error) bool {
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var name *net.DNSError
	var request *smithy.SerializationError
	switch {
	case errors.As(err, &certificate), errors.As(err, &authority), errors.As(err, &request):
		return false
	case errors.Is(err, context.Canceled), errors.Is(err, http.ErrSchemeMismatch):
		return false
	}
	return !errors.As(err, &name) || !name.IsNotFound
}
