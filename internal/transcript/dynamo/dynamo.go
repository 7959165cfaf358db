// Package dynamo keeps messages in a DynamoDB table.
//
// [Parse] parses an address, [Open] returns a [Store], [Store.CreateTable] creates the table. Credentials come from
// the default chain of the AWS SDK: the environment, the files in ~/.aws, the machine's role.
//
// There is one table. Items are put and deleted, never changed. Its partition key pk is the tenant and the
// conversation. A message has a head item, whose sort key is "m:" and the message's id (item.go). A message that is
// too long for one item has parts, which are named in the head. Parts are written before the head, which is put only
// if there is none (put.go), and deleted after it (forget.go). So a message exists when its head does. There is one
// exception: if a conversation is forgotten during a put, a head may be left without its parts. Such a head is not a
// message, and the next put replaces it.
//
// No transactions and no index are used.
package dynamo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/transcript"
)

// Store is a table. [Open] returns one.
type Store struct {
	Options
	client *dynamodb.Client
	limits limits
}

var _ transcript.Store = (*Store)(nil)

// limits are the sizes of items and the times of requests. Tests make them smaller.
type limits struct {
	whole    int           // the largest body that is stored in the head, in bytes
	part     int           // the size of a part of a larger body, in bytes
	pause    time.Duration // the pause before the second attempt; later pauses are longer
	patience time.Duration // the time limit of one request with all its attempts
}

// An item of DynamoDB has at most 400 KiB, including its keys.
var defaultLimits = limits{whole: 256 << 10, part: 360 << 10, pause: 25 * time.Millisecond, patience: time.Minute}

const (
	maxPause       = 5 * time.Second
	attemptTimeout = 20 * time.Second // time limit of one attempt
)

// Open returns a store. It loads credentials but sends no request to DynamoDB: [Store.Check] shows whether the
// credentials are valid and the table exists.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	cfg, err := load(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &Store{Options: o, limits: defaultLimits}
	s.client = dynamodb.NewFromConfig(cfg, func(d *dynamodb.Options) {
		if o.Endpoint != "" {
			d.BaseEndpoint = aws.String(o.Endpoint)
		}
		d.HTTPClient = newClient()
		d.Logger = logging.Nop{}
		d.ClientLogMode = 0
	})
	return s, nil
}

// load loads credentials and the region.
func load(ctx context.Context, o Options) (aws.Config, error) {
	const op = "open message store"
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var with []func(*config.LoadOptions) error
	if o.Region != "" {
		with = append(with, config.WithRegion(o.Region))
	}
	if o.Profile != "" {
		with = append(with, config.WithSharedConfigProfile(o.Profile))
	}
	if o.Credentials != nil {
		with = append(with, config.WithCredentialsProvider(o.Credentials))
	}
	cfg, err := config.LoadDefaultConfig(ctx, with...)
	if err != nil {
		e := fault.Errorf(op, api.CodeInvalidConfig, "%s: read the AWS configuration: %w", o, err)
		e.Hint = "Correct the profile in message_store or AWS_PROFILE, and the files that the detail names."
		return cfg, e
	}
	switch {
	case cfg.Region != "":
	case o.Endpoint != "":
		cfg.Region = "us-east-1" // the default of self-hosted servers
	default:
		e := fault.Errorf(op, api.CodeInvalidConfig, "%s: the region is not known", o)
		e.Hint = "Write region=… into message_store, or set AWS_REGION."
		return cfg, e
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		e := fault.Errorf(op, api.CodeInvalidConfig, "%s: no credentials were found: %w", o, err)
		e.Hint = hintCredentials
		return cfg, e
	}
	return cfg, nil
}

// newClient returns a client that keeps enough idle connections for concurrent turns.
func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	transport.IdleConnTimeout = 50 * time.Second
	return &http.Client{
		Transport: genuine{transport}, Timeout: attemptTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// genuine refuses responses that do not come from DynamoDB. Otherwise an empty response of a gateway with status 200
// would count as a successful put.
type genuine struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (g genuine) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := g.RoundTripper.RoundTrip(r)
	if err != nil || res.StatusCode != http.StatusOK || strings.HasPrefix(res.Header.Get("Content-Type"), "application/x-amz-json") {
		return res, err
	}
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // so that the connection can be used again
	_ = res.Body.Close()
	return nil, fmt.Errorf("the answer is not DynamoDB's: its content type is %.100q", res.Header.Get("Content-Type"))
}
