// Package s3blob keeps objects in S3, or in anything that speaks its protocol.
//
// [Parse] reads an address, [Open] makes a [Store] of it. Credentials come from where the AWS tools take
// them: the environment, the files in ~/.aws, the machine's role.
//
// Every request is tried again with growing, random pauses, for as long as the failure may pass
// (retry.go). A conditional write whose answer was lost is settled by looking: it carries an id
// (settle.go). Bodies that break off are read on from where they broke (get.go); one that ends early is
// never a short success. Large objects go in parts, several at once (multipart.go). The bytes of every
// write are signed with their SHA-256, which the server checks; the checksums that the SDK adds by default
// are left out, because many servers refuse them.
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
	"github.com/berthdev/berth/internal/sandbox"
)

// Store is a prefix of a bucket. It is made by [Open].
type Store struct {
	Options
	client *s3.Client
	met    atomic.Bool         // the server has answered once
	plain  atomic.Bool         // it does not take checksums beside its signatures
	memory *semaphore.Weighted // bytes of buffers
	limits limits
}

var _ blob.Store = (*Store)(nil)

// limits are S3's, and how much is sent at once. Tests make them smaller.
type limits struct {
	whole    int64 // the largest object that is sent in one request
	part     int64 // the size of parts of larger ones
	parts    int   // of one object that are under way at once
	copyPart int64 // the size of parts that are copied

	pause    time.Duration // before the second try; it grows from there
	patience time.Duration // no further try after that
	broken   int           // how often in a row a body may break off without having brought a byte
}

var usual = limits{
	whole: 16 << 20, part: 8 << 20, parts: 4, copyPart: 512 << 20,
	pause: 50 * time.Millisecond, patience: 5 * time.Minute, broken: 8,
}

// maxParts is S3's.
const maxParts = 10_000

// maxMemory bounds the buffers of all writes together.
const maxMemory = 128 << 20

// Open makes a store. It asks for credentials, and for nothing else: whether they are good, and the bucket
// is there, shows with the first request, which [blob.Probe] makes.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	cfg, err := load(ctx, &o)
	if err != nil {
		return nil, err
	}
	s := &Store{Options: o, memory: semaphore.NewWeighted(maxMemory), limits: usual}
	s.client = s3.NewFromConfig(cfg, s.configure)
	return s, nil
}

// load finds credentials and the region.
func load(ctx context.Context, o *Options) (aws.Config, error) {
	const op = "open object store"
	if cfg, ok := given(o); ok {
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
		return cfg, sandbox.Errorf(op, api.CodeBlobCredentials, "%s: read the AWS configuration: %w", o, err)
	}
	switch {
	case cfg.Region != "":
	case o.Endpoint != "":
		cfg.Region = "us-east-1" // what servers of one's own expect
	default:
		return cfg, sandbox.Errorf(op, api.CodeBlobRegion, "%s: the region is not known", o)
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return cfg, sandbox.Errorf(op, api.CodeBlobCredentials, "%s: no credentials were found: %w", o, err)
	}
	return cfg, nil
}

// given is the configuration of a server of one's own whose region and keys are known. To look for what else
// there may be in the environment and in files takes longer than a request; not ok: one has to.
func given(o *Options) (cfg aws.Config, ok bool) {
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

// configure sets what differs from the SDK's defaults.
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
	o.ContinueHeaderThresholdBytes = -1 // a round trip for nothing
	o.APIOptions = append(o.APIOptions, signBytes, s.demandWhole)
}

// signBytes signs the hash of what is sent also over TLS, where the SDK signs nothing: the server checks
// it, and so notices what was spoilt behind the TLS's end.
func signBytes(stack *middleware.Stack) error {
	_, err := stack.Finalize.Swap((*v4.ComputePayloadSHA256)(nil).ID(), &v4.ComputePayloadSHA256{})
	return err
}

// newClient keeps connections open, as many as there are ranges and parts under way.
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
				return &impatient{conn, stall}, nil
			},
			MaxIdleConns: 128, MaxIdleConnsPerHost: 128, IdleConnTimeout: 50 * time.Second,
			TLSHandshakeTimeout: connectFor, ResponseHeaderTimeout: answerFor,
			ReadBufferSize: 64 << 10, WriteBufferSize: 64 << 10,
			DisableCompression: true,
		},
		// A redirect is S3's way to say that the region is wrong; the signature would not fit.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Bounds of one request. A large body may take as long as it likes, while bytes move.
const (
	connectFor = 5 * time.Second  // to connect, and for the TLS handshake
	answerFor  = 15 * time.Second // from the last byte of the request to the first of the answer
	stall      = 30 * time.Second // without a byte on the connection
)

// impatient is a connection on which nothing stands still for ever.
type impatient struct {
	net.Conn
	stall time.Duration
}

func (c *impatient) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *impatient) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// name is the object's key in the bucket.
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

// copySource names an object for a copy, escaped so that every server reads it alike.
func (s *Store) copySource(key string) *string {
	var b strings.Builder
	b.WriteString(s.Bucket)
	for segment := range strings.SplitSeq(s.base()+key, "/") {
		b.WriteString("/" + strings.ReplaceAll(url.QueryEscape(segment), "+", "%20"))
	}
	return aws.String(b.String())
}
