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
	"github.com/berthdev/berth/internal/sandbox"
)

const (
	hintCredentials = "Give the server a valid AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN for temporary ones), a profile, or a role."
	hintTable       = "Make the table with 'berth migrate', or correct its name, the region or the endpoint in message_store."
	hintDenied      = "Allow the server's credentials dynamodb:PutItem, GetItem, Query, DeleteItem and BatchWriteItem on the table, and for 'berth migrate' CreateTable and DescribeTable."
	hintThrottled   = "DynamoDB asks for fewer requests; Berth tries again by itself. If it stays so, raise the table's limits."
	hintLater       = "Messages are kept and delivered when it answers again; if it stays so, check that DynamoDB is reachable and that message_store names it."
)

// explain says what an error means, and what to do about it.
func (s *Store) explain(op string, err error) error {
	var ours *sandbox.Error
	if err == nil || errors.As(err, &ours) {
		return err
	}
	e := s.classify(err)
	e.Op = op + " in " + s.String()
	return e
}

func (s *Store) classify(err error) *sandbox.Error {
	if errors.Is(err, context.Canceled) {
		return &sandbox.Error{Code: api.CodeTimeout, Retry: true, Err: context.Canceled}
	}
	var known smithy.APIError
	if !errors.As(err, &known) || known.ErrorCode() == "" {
		return &sandbox.Error{Code: api.CodeMessageStore, Retry: true, Hint: hintLater, Err: inner(err)}
	}
	e := &sandbox.Error{Code: api.CodeMessageStore, Err: fmt.Errorf("DynamoDB answers %s: %s", known.ErrorCode(), strings.TrimSuffix(known.ErrorMessage(), "."))}
	switch known.ErrorCode() {
	case "ResourceNotFoundException":
		e.Hint = hintTable
	case "UnrecognizedClientException", "InvalidSignatureException", "MissingAuthenticationTokenException", "ExpiredTokenException",
		"IncompleteSignatureException", "InvalidClientTokenId", "SignatureDoesNotMatch":
		e.Hint = hintCredentials
	case "AccessDeniedException", "AccessDenied", "NotAuthorized", "OptInRequired":
		e.Hint = hintDenied
	case "ValidationException", "SerializationException":
		// The table is not one of ours: it has other keys.
		e.Hint = "The table has other keys than pk and sk, both text; name another one in message_store, and make it with 'berth migrate'."
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "ThroughputExceeded":
		e.Retry, e.Hint = true, hintThrottled
	default:
		e.Retry, e.Hint = true, hintLater
	}
	return e
}

// errNoAnswer is what is left of a deadline that passed.
var errNoAnswer = errors.New("there is no answer in time")

// inner leaves out what the SDK wraps around an error: the operation and the address, which are named
// already.
func inner(err error) error {
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

// isThere recognises that a conditional put was refused.
func isThere(err error) bool {
	var refused *types.ConditionalCheckFailedException
	return errors.As(err, &refused)
}
