package s3blob

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/sandbox"
)

// explain says what an error of an operation on a key means, and what to do about it.
func (s *Store) explain(op, key string, err error) error {
	var foreign *unreadable
	switch {
	case errors.As(err, &foreign):
		return fmt.Errorf("%s %s: read what is to be put: %w", op, key, foreign.error)
	case isSeam(err):
		return fmt.Errorf("%s %s: %w", op, key, err)
	}
	e := s.classify(err)
	e.Op = strings.TrimSpace(op+" "+key) + " in " + s.String()
	e.Retry = e.Code.Info().Retryable
	return e
}

func isSeam(err error) bool {
	return errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrPrecondition) || errors.Is(err, blob.ErrNotModified) || errors.Is(err, blob.ErrRange)
}

// classify finds the code. The store's own words are kept, its request's id with them; neither has a
// secret in it.
func (s *Store) classify(err error) *sandbox.Error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &sandbox.Error{Code: api.CodeTimeout, Err: err}
	}
	if errors.Is(err, errUnsure) {
		return &sandbox.Error{Code: api.CodeBlobUnreachable, Err: err, Hint: "Read the object to find out whether it was written."}
	}
	if status(err) == 0 && code(err) == "" {
		return s.unreachable(err)
	}
	e := &sandbox.Error{Err: errors.New(words(err))}
	switch code(err) {
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "TokenRefreshRequired", "InvalidSecurity",
		"NotSignedUp", "AccountProblem", "InvalidClientTokenId", "CredentialsNotSupported", "UnrecognizedClientException", "XAdminUserNotFound":
		e.Code = api.CodeBlobCredentials
		return e
	case "RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture":
		e.Code = api.CodeBlobClock
		e.Err = fmt.Errorf("%s; here it is %s", words(err), time.Now().UTC().Format(time.RFC3339))
		return e
	case "NoSuchBucket":
		e.Code = api.CodeBlobNoBucket
		return e
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException", "TemporaryRedirect":
		return s.elsewhere(err, e)
	case "XMinioStorageFull", "StorageFull", "QuotaExceeded", "QuotaExceededException":
		e.Code = api.CodeBlobFull
		return e
	}
	switch at := status(err); {
	case at == http.StatusMovedPermanently, at == http.StatusTemporaryRedirect:
		return s.elsewhere(err, e)
	case at == http.StatusForbidden, at == http.StatusUnauthorized:
		e.Code = api.CodeBlobDenied
	case at == http.StatusInsufficientStorage:
		e.Code = api.CodeBlobFull
	case at >= 500, at == http.StatusTooManyRequests, at == http.StatusRequestTimeout:
		e.Code = api.CodeBlobUnreachable
	default:
		e.Code = api.CodeBlobRefused
	}
	return e
}

// words are the store's.
func words(err error) string {
	var known smithy.APIError
	text := fmt.Sprintf("the store answers %d %s", status(err), http.StatusText(status(err)))
	if errors.As(err, &known) && known.ErrorCode() != "" {
		text += ", " + known.ErrorCode()
		if m := known.ErrorMessage(); m != "" {
			text += ": " + strings.TrimSuffix(m, ".")
		}
	}
	var request interface{ ServiceRequestID() string }
	if errors.As(err, &request) && request.ServiceRequestID() != "" {
		text += " (request " + request.ServiceRequestID() + ")"
	}
	return text
}

var expecting = regexp.MustCompile(`expecting ['"]([a-z0-9-]+)['"]`)

// elsewhere is a bucket of another region, which the answer names.
func (s *Store) elsewhere(err error, e *sandbox.Error) *sandbox.Error {
	e.Code = api.CodeBlobRegion
	region := ""
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.Response != nil {
		region = response.Response.Header.Get("X-Amz-Bucket-Region")
	}
	if found := expecting.FindStringSubmatch(words(err)); region == "" && found != nil {
		region = found[1]
	}
	switch {
	case region != "":
		e.Hint = fmt.Sprintf("Write region=%s into object_store, or set AWS_REGION=%s.", region, region)
	case code(err) == "AuthorizationHeaderMalformed":
		e.Code = api.CodeBlobCredentials
	}
	return e
}

// unreachable is a store that gave no answer, or not a whole one.
func (s *Store) unreachable(err error) *sandbox.Error {
	e := &sandbox.Error{Code: api.CodeBlobUnreachable, Err: inner(err)}
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	where := s.Endpoint
	if where == "" {
		where = "AWS in region " + s.client.Options().Region
	}
	switch {
	case errors.As(err, &name):
		e.Hint = fmt.Sprintf("There is no host %q: correct the endpoint or the region in object_store, or the machine's name service.", name.Name)
	case errors.As(err, &certificate), errors.As(err, &authority):
		e.Hint = fmt.Sprintf("The certificate of %s is not trusted here: add its authority to the system's, or name it in SSL_CERT_FILE.", where)
	case errors.Is(err, http.ErrSchemeMismatch):
		e.Hint = fmt.Sprintf("%s does not speak TLS: write http:// in the endpoint.", where)
	case isDial(err):
		e.Hint = fmt.Sprintf("Nobody answers at %s: start the store there, or correct the endpoint in object_store.", where)
	}
	return e
}

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// inner leaves out what the SDK wraps around an error: the operation and the address, which are named
// already.
func inner(err error) error {
	var sent *url.Error
	if errors.As(err, &sent) {
		return sent.Err
	}
	var answer *smithy.DeserializationError
	if errors.As(err, &answer) {
		return fmt.Errorf("the store's answer cannot be read: %w", answer.Err)
	}
	return err
}

// unreadable is a failure of the reader whose bytes were to be put, which says nothing about the store.
type unreadable struct{ error }

func (u *unreadable) Unwrap() error { return u.error }
