package dynamo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

const (
	hintCredentials = "Give the server a valid AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN for temporary ones), a profile, or a role."
	hintTable       = "Make the table with 'berth migrate', or correct its name, the region or the endpoint in message_store."
	hintDenied      = "Allow the server's credentials dynamodb:PutItem, GetItem, Query, DeleteItem and BatchWriteItem on the table, and for 'berth migrate' CreateTable and DescribeTable."
	hintThrottled   = "DynamoDB asks for fewer requests; Berth tries again by itself. If it stays so, raise the table's limits."
	hintLater       = "Messages are kept and delivered when it answers again; if it stays so, check that DynamoDB is reachable and that message_store names it."
)

// explain converts an error to a fault.Error with code and hint.
func (s *Store) explain(op string, err error) error {
	var ours *fault.Error
	if err == nil || errors.As(err, &ours) {
		return err
	}
	e := s.classify(err)
	e.Op = op + " in " + s.String()
	return e
}

func (s *Store) classify(err error) *fault.Error {
	if errors.Is(err, context.Canceled) {
		return &fault.Error{Code: api.CodeTimeout, Retry: true, Err: context.Canceled}
	}
	var known smithy.APIError
	if !errors.As(err, &known) || known.ErrorCode() == "" {
		return &fault.Error{Code: api.CodeMessageStore, Retry: true, Hint: hintLater, Err: unwrapSDK(err)}
	}
	e := &fault.Error{Code: api.CodeMessageStore, Err: fmt.Errorf("DynamoDB answers %s: %s", known.ErrorCode(), strings.TrimSuffix(known.ErrorMessage(), "."))}
	switch known.ErrorCode() {
	case "ResourceNotFoundException":
		e.Hint = hintTable
	case "UnrecognizedClientException", "InvalidSignatureException", "MissingAuthenticationTokenException", "ExpiredTokenException",
		"IncompleteSignatureException", "InvalidClientTokenId", "SignatureDoesNotMatch":
		e.Hint = hintCredentials
	case "AccessDeniedException", "AccessDenied", "NotAuthorized", "OptInRequired":
		e.Hint = hintDenied
	case "ValidationException", "SerializationException":
		// The table has other keys: Berth did not create it.
		e.Hint = "The table has other keys than pk and sk, both text; name another one in message_store, and make it with 'berth migrate'."
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "ThroughputExceeded":
		e.Retry, e.Hint = true, hintThrottled
	default:
		e.Retry, e.Hint = true, hintLater
	}
	return e
}

// errNoAnswer replaces context.DeadlineExceeded.
var errNoAnswer = errors.New("there is no answer in time")

// unwrapSDK returns the error inside the SDK's wrapping, which repeats the operation and the address.
func unwrapSDK(err error) error {
	var sent *url.Error
	var dialled *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return errNoAnswer
	case errors.As(err, &dialled):
		return dialled
	case errors.As(err, &sent):
		return sent.Err
	}
	return err
}

// isThere reports whether a conditional put was refused because the item exists.
func isThere(err error) bool {
	var refused *types.ConditionalCheckFailedException
	return errors.As(err, &refused)
}
