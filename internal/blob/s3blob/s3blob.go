// Package s3blob keeps objects in S3, or in a server with the S3 API.
//
// [Parse] parses an address. [Open] returns a [Store]. Credentials come from the default chain of the AWS SDK: the
// environment, the files in ~/.aws, the role of the machine.
//
// A failed request is retried with growing, random delays if the failure may be temporary (retry.go). If the
// response to a conditional write is lost, the store reads the object, which contains the id of the write
// (settle.go). An interrupted body is continued where it broke (get.go); a truncated body is always an error. Large
// objects are sent in concurrent parts (multipart.go). All writes are signed with the SHA-256 of their bytes, which
// the server verifies. The checksums that the SDK adds by default are left out, because many servers refuse them.
package s3blob

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	"golang.org/x/sync/semaphore"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/fault"
)

// Store keeps objects under a prefix of a bucket. [Open] returns one.
type Store struct {
	Options
	client     *s3.Client
	answered   atomic.Bool         // the server has answered at least once
	refusesCRC atomic.Bool         // the server refuses CRC32C checksums
	memory     *semaphore.Weighted // limits the bytes of all buffers
	limits     limits
}

var _ blob.Store = (*Store)(nil)

// limits are limits of S3 and of concurrency. Tests use smaller ones.
type limits struct {
	whole    int64 // maximum size of an object that is sent in one request
	part     int64 // size of the parts of larger objects
	parts    int   // number of concurrent parts of one object
	copyPart int64 // size of the parts of a copy

	pause    time.Duration // delay before the second attempt; later delays are longer
	patience time.Duration // time after which no further attempt starts
	broken   int           // maximum number of consecutive breaks of a body without a byte in between
}

var defaultLimits = limits{
	whole: 16 << 20, part: 8 << 20, parts: 4, copyPart: 512 << 20,
	pause: 50 * time.Millisecond, patience: 5 * time.Minute, broken: 8,
}

// maxParts is the maximum number of parts of an object in S3.
const maxParts = 10_000

// maxMemory limits the total size of the buffers of all writes.
const maxMemory = 128 << 20

// Open returns a store. It loads credentials and sends no request to the store. The first request shows whether the
// credentials are valid and the bucket exists.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	cfg, err := load(ctx, &o)
	if err != nil {
		return nil, err
	}
	s := &Store{Options: o, memory: semaphore.NewWeighted(maxMemory), limits: defaultLimits}
	s.client = s3.NewFromConfig(cfg, s.configure)
	return s, nil
}

// load loads the credentials and the region.
func load(ctx context.Context, o *Options) (aws.Config, error) {
	const op = "open object store"
	if cfg, ok := fromEnv(o); ok {
		return cfg, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var with []func(*config.LoadOptions) error
	if o.Region != "" {
		with = append(with, config.WithRegion(o.Region))
	}
	if o.Credentials != nil {
		with = append(with, config.WithCredentialsProvider(o.Credentials))
	}
	cfg, err := config.LoadDefaultConfig(ctx, with...)
	if err != nil {
		return cfg, fault.Errorf(op, api.CodeBlobCredentials, "%s: read the AWS configuration: %w", o, err)
	}
	switch {
	case cfg.Region != "":
	case o.Endpoint != "":
		cfg.Region = "us-east-1" // the default region of self-hosted servers
	default:
		return cfg, fault.Errorf(op, api.CodeBlobRegion, "%s: the region is not known", o)
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return cfg, fault.Errorf(op, api.CodeBlobCredentials, "%s: no credentials were found: %w", o, err)
	}
	return cfg, nil
}

// fromEnv returns the configuration if all of it is set: an endpoint, and a region and keys in the options or the
// environment. This is faster than the SDK's default chain, which takes longer than a request.
func fromEnv(o *Options) (cfg aws.Config, ok bool) {
	env, err := config.NewEnvConfig()
	if err != nil || o.Endpoint == "" {
		return cfg, false
	}
	cfg = aws.Config{Region: cmp.Or(o.Region, env.Region), Credentials: o.Credentials}
	if cfg.Credentials == nil && env.Credentials.HasKeys() {
		cfg.Credentials = credentials.StaticCredentialsProvider{Value: env.Credentials}
	}
	return cfg, cfg.Region != "" && cfg.Credentials != nil
}

// configure sets the SDK options that differ from the defaults.
func (s *Store) configure(o *s3.Options) {
	if s.Endpoint != "" {
		o.BaseEndpoint = aws.String(s.Endpoint)
	}
	o.UsePathStyle = s.pathStyle()
	o.HTTPClient = newClient()
	o.Logger = logging.Nop{}
	o.ClientLogMode = 0
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	o.ContinueHeaderThresholdBytes = -1 // send the body without waiting for "100 Continue", which saves a round trip
	o.APIOptions = append(o.APIOptions, signBytes, s.demandWhole)
}

// signBytes makes the SDK sign the hash of the payload over TLS too, which it does not by default. The server
// verifies the hash and so detects corruption behind the TLS endpoint.
func signBytes(stack *middleware.Stack) error {
	_, err := stack.Finalize.Swap((*v4.ComputePayloadSHA256)(nil).ID(), &v4.ComputePayloadSHA256{})
	return err
}

// newClient returns a client that keeps enough connections open for all concurrent ranges and parts.
func newClient() *http.Client {
	dialer := &net.Dialer{Timeout: connectFor, KeepAlive: 30 * time.Second}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dialer.DialContext(ctx, network, address)
				if err != nil {
					return nil, err
				}
				return &timeoutConn{conn, stall}, nil
			},
			MaxIdleConns: 128, MaxIdleConnsPerHost: 128, IdleConnTimeout: 50 * time.Second,
			TLSHandshakeTimeout: connectFor, ResponseHeaderTimeout: answerFor,
			ReadBufferSize: 64 << 10, WriteBufferSize: 64 << 10,
			DisableCompression: true,
		},
		// If the region is wrong, S3 redirects to another region, where the signature would not be valid.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Time limits of one request. A large body has no time limit while bytes are transferred.
const (
	connectFor = 5 * time.Second  // for the connection, and again for the TLS handshake
	answerFor  = 15 * time.Second // from the last byte of the request to the first byte of the response
	stall      = 30 * time.Second // without a transferred byte
)

// timeoutConn is a connection with a time limit for each Read and Write.
type timeoutConn struct {
	net.Conn
	stall time.Duration
}

func (c *timeoutConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *timeoutConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// name returns the name of an object in the bucket: the prefix and the key.
func (s *Store) name(key string) *string { return aws.String(s.base() + key) }

func (s *Store) bucket() *string { return aws.String(s.Bucket) }

func (s *Store) encryption() types.ServerSideEncryption {
	return types.ServerSideEncryption(s.Encryption)
}

func (s *Store) kmsKey() *string {
	if s.KMSKey == "" {
		return nil
	}
	return aws.String(s.KMSKey)
}

// copySource returns the source parameter of a copy, escaped in a form that all servers accept.
func (s *Store) copySource(key string) *string {
	var b strings.Builder
	b.WriteString(s.Bucket)
	for segment := range strings.SplitSeq(s.base()+key, "/") {
		b.WriteString("/" + strings.ReplaceAll(url.QueryEscape(segment), "+", "%20"))
	}
	return aws.String(b.String())
}
