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
	"github.com/berthdev/berth/internal/fault"
)

// explain adds the operation, code and hint to an error of a call with a key.
func (s *Store) explain(op, key string, err error) error {
	var foreign *unreadable
	switch {
	case errors.As(err, &foreign):
		return fmt.Errorf("%s %s: read the source: %w", op, key, foreign.error)
	case isBlobError(err):
		return fmt.Errorf("%s %s: %w", op, key, err)
	}
	e := s.classify(err)
	e.Op = strings.TrimSpace(op+" "+key) + " in " + s.String()
	e.Retry = e.Code.Info().Retryable
	return e
}

func isBlobError(err error) bool {
	return errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrPrecondition) || errors.Is(err, blob.ErrNotModified) || errors.Is(err, blob.ErrRange)
}

// classify returns an error with the code for err. It keeps the store's message and request id, which contain no
// secrets.
func (s *Store) classify(err error) *fault.Error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &fault.Error{Code: api.CodeTimeout, Err: err}
	}
	if errors.Is(err, errUnsure) {
		return &fault.Error{Code: api.CodeBlobUnreachable, Err: err, Hint: "Read the object to find out whether it was written."}
	}
	if status(err) == 0 && code(err) == "" {
		return s.unreachable(err)
	}
	e := &fault.Error{Err: errors.New(messageOf(err))}
	switch code(err) {
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "TokenRefreshRequired", "InvalidSecurity",
		"NotSignedUp", "AccountProblem", "InvalidClientTokenId", "CredentialsNotSupported", "UnrecognizedClientException", "XAdminUserNotFound":
		e.Code = api.CodeBlobCredentials
		return e
	case "RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture":
		e.Code = api.CodeBlobClock
		e.Err = fmt.Errorf("%s; here it is %s", messageOf(err), time.Now().UTC().Format(time.RFC3339))
		return e
	case "NoSuchBucket":
		e.Code = api.CodeBlobNoBucket
		return e
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException", "TemporaryRedirect":
		return s.otherRegion(err, e)
	case "XMinioStorageFull", "StorageFull", "QuotaExceeded", "QuotaExceededException":
		e.Code = api.CodeBlobFull
		return e
	}
	switch at := status(err); {
	case at == http.StatusMovedPermanently, at == http.StatusTemporaryRedirect:
		return s.otherRegion(err, e)
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

// messageOf returns the status, the code and the message of the store's response.
func messageOf(err error) string {
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

// otherRegion returns the error for a bucket in another region, with the region in its hint if the response names
// it.
func (s *Store) otherRegion(err error, e *fault.Error) *fault.Error {
	e.Code = api.CodeBlobRegion
	region := ""
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.Response != nil {
		region = response.Response.Header.Get("X-Amz-Bucket-Region")
	}
	if found := expecting.FindStringSubmatch(messageOf(err)); region == "" && found != nil {
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

// unreachable returns the error for a missing or incomplete response.
func (s *Store) unreachable(err error) *fault.Error {
	e := &fault.Error{Code: api.CodeBlobUnreachable, Err: inner(err)}
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
		e.Hint = fmt.Sprintf("There is no answer from %s: start the store there, or correct the endpoint in object_store.", where)
	}
	return e
}

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// inner removes the SDK's error wrapping. It contains the operation and the address, which the caller adds in its
// own form.
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

// unreadable is an error of the caller's reader, not of the store.
type unreadable struct{ error }

func (u *unreadable) Unwrap() error { return u.error }
