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
	// maxStrange is how often a server is tried that has never answered: its address may be wrong, and then
	// one wants to know soon.
	maxStrange = 4

	maxPause = 5 * time.Second
)

// call is one call of the SDK and its attempts. It is the SDK's retryer.
type call struct {
	s      *Store
	ctx    context.Context
	begin  time.Time
	head   bool // a request whose answers have no body
	most   int  // attempts
	failed int
	unsure bool // an attempt failed, and it is not known whether the server had done it
}

func (s *Store) call(ctx context.Context) *call {
	return &call{s: s, ctx: ctx, begin: time.Now(), most: maxAttempts}
}

// with is an option of the SDK's operations.
func (c *call) with(o *s3.Options) { o.Retryer = c }

// IsErrorRetryable decides about another attempt.
func (c *call) IsErrorRetryable(err error) bool {
	c.failed++
	if !settled(err) {
		c.unsure = true
	}
	switch {
	case c.ctx.Err() != nil, !passing(err), c.head && status(err) == http.StatusNotFound:
		return false
	case !c.s.met.Load() && c.failed >= maxStrange && status(err) == 0:
		return false
	}
	return time.Since(c.begin) < c.s.limits.patience
}

// MaxAttempts bounds the attempts.
func (c *call) MaxAttempts() int { return c.most }

// RetryDelay grows, and is random, so that many callers do not come back at once.
func (c *call) RetryDelay(attempt int, _ error) (time.Duration, error) {
	return c.s.pause(attempt), nil
}

// pause is how long to wait before another try.
func (s *Store) pause(attempt int) time.Duration {
	most := min(s.limits.pause<<min(attempt, 20), maxPause)
	return most/2 + rand.N(most/2)
}

// GetRetryToken and the others do not ration attempts.
func (c *call) GetRetryToken(context.Context, error) (func(error) error, error) { return free, nil }

// GetInitialToken does not, either.
func (c *call) GetInitialToken() func(error) error { return free }

// GetAttemptToken does not, either.
func (c *call) GetAttemptToken(context.Context) (func(error) error, error) { return free, nil }

func free(error) error { return nil }

// status is the answer's where it is one of failure, and otherwise 0: there was no answer, or not a whole
// one.
func status(err error) int {
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.HTTPStatusCode() >= 300 {
		return response.HTTPStatusCode()
	}
	return 0
}

// code is S3's name of an error, or empty.
func code(err error) string {
	var known smithy.APIError
	if errors.As(err, &known) {
		return known.ErrorCode()
	}
	return ""
}

// settled reports whether a failed attempt had no effect for certain: the server refused it, or was never
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

// passing reports whether a failure may pass by itself.
func passing(err error) bool {
	// The SDK says so where it has corrected for a wrong clock.
	var opinion interface{ RetryableError() bool }
	if errors.As(err, &opinion) && opinion.RetryableError() {
		return true
	}
	switch code(err) {
	case "RequestTimeout", "SlowDown", "InternalError", "ServiceUnavailable", "Throttling", "ThrottlingException", "TooManyRequests",
		"ConditionalRequestConflict", "OperationAborted", // somebody else was at it; the next try finds how it ended
		"BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody", "XMinioServerNotInitialized": // spoilt on the way
		return true
	case "NotImplemented":
		return false
	}
	switch at := status(err); {
	case at == http.StatusTooManyRequests, at == http.StatusRequestTimeout:
		return true
	case at == http.StatusNotFound:
		return code(err) == "" || code(err) == "NotFound" // without S3's own word it was cut off
	case at >= 500:
		return at != http.StatusNotImplemented && at != http.StatusInsufficientStorage
	case at >= 300:
		return false
	}
	return passingBelow(err)
}

// passingBelow is about failures without an answer, or with one that broke off.
func passingBelow(err error) bool {
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
