// Package dynamo keeps messages in a DynamoDB table.
//
// [Parse] reads an address, [Open] makes a [Store] of it, [Store.CreateTable] makes the table. Credentials
// come from where the AWS tools take them: the environment, the files in ~/.aws, the machine's role.
//
// There is one table, and nothing in it is ever changed: items are put and deleted. Its partition key pk
// is the tenant and the conversation. A message is its head, whose sort key is "m:" and the message's id
// (item.go). What is too long for one item of DynamoDB's is in parts, which belong to one attempt to put
// the message, and which the head names. They are written before the head, which is put only if there is
// none (put.go), and deleted after it (forget.go): a message is there when its head is. Only where a
// conversation was forgotten while a message was put can a head be left without its parts. It is no
// message then, and the next put replaces it.
//
// No transactions are used, and no index.
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
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/transcript"
)

// Store is a table. It is made by [Open].
type Store struct {
	Options
	client *dynamodb.Client
	limits limits
}

var _ transcript.Store = (*Store)(nil)

// limits are how items are cut, and how long a request is tried. Tests make them smaller.
type limits struct {
	whole    int           // the longest body that is kept in the head
	part     int           // the length of parts of longer ones
	pause    time.Duration // before the second try; it grows from there
	patience time.Duration // for one request with all its tries
}

// An item of DynamoDB's has 400 KiB, with its keys.
var usual = limits{whole: 256 << 10, part: 360 << 10, pause: 25 * time.Millisecond, patience: time.Minute}

const (
	maxPause = 5 * time.Second
	oneTry   = 20 * time.Second // what takes longer was lost on the way
)

// Open makes a store. It asks for credentials, and for nothing else: whether they are good, and the table
// is there, is for [Store.Check] to find out.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	cfg, err := load(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &Store{Options: o, limits: usual}
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

// load finds credentials and the region.
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
		e := sandbox.Errorf(op, api.CodeInvalidConfig, "%s: read the AWS configuration: %w", o, err)
		e.Hint = "Correct the profile in message_store or AWS_PROFILE, and the files that the detail names."
		return cfg, e
	}
	switch {
	case cfg.Region != "":
	case o.Endpoint != "":
		cfg.Region = "us-east-1" // what servers of one's own expect
	default:
		e := sandbox.Errorf(op, api.CodeInvalidConfig, "%s: the region is not known", o)
		e.Hint = "Write region=… into message_store, or set AWS_REGION."
		return cfg, e
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		e := sandbox.Errorf(op, api.CodeInvalidConfig, "%s: no credentials were found: %w", o, err)
		e.Hint = hintCredentials
		return cfg, e
	}
	return cfg, nil
}

// newClient keeps connections open for as many turns as end at once.
func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	transport.IdleConnTimeout = 50 * time.Second
	return &http.Client{
		Transport: genuine{transport}, Timeout: oneTry,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// genuine refuses answers that are not DynamoDB's. A gateway that answers 200 with an empty body would
// otherwise pass for a put that was done.
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
