package s3blob

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/awsaddr"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/fault"
)

// Options configure a bucket and its endpoint.
type Options struct {
	Bucket     string
	Prefix     string // prefix of all keys; may be empty
	Endpoint   string // http(s)://host[:port]; empty means AWS
	Region     string // empty means AWS_REGION or the AWS configuration, or us-east-1 with an endpoint
	PathStyle  *bool  // the bucket is in the path, not in the host name; nil means true with an endpoint
	Encryption string // server-side encryption: AES256, aws:kms, or empty for the default of the bucket
	KMSKey     string // key for aws:kms; empty means the default of the account

	Credentials aws.CredentialsProvider // nil means the default chain of the AWS SDK
}

// usage describes the form of an address for error messages.
const usage = "s3://bucket/prefix?endpoint=http://host:port&region=us-east-1&path_style=true&sse=AES256|aws:kms&sse_kms_key_id=…, all after the bucket as needed"

func invalid(format string, args ...any) error {
	return &fault.Error{Op: "read object store address", Code: api.CodeInvalidConfig, Hint: "Write " + usage + ".", Err: fmt.Errorf(format, args...)}
}

// Parse parses the address of a store. An address does not contain credentials.
func Parse(address string) (Options, error) {
	var o Options
	a, err := awsaddr.Parse(address, "s3", o.set)
	if err != nil {
		return Options{}, invalid("%w", err)
	}
	o.Bucket, o.Prefix, o.Endpoint, o.Region = a.Name, a.Path, a.Endpoint, a.Region
	return o, o.check()
}

func (o *Options) set(name, value string) (known bool, err error) {
	switch name {
	case "sse":
		o.Encryption = value
	case "sse_kms_key_id":
		o.KMSKey = value
	case "path_style":
		yes, err := strconv.ParseBool(value)
		if err != nil {
			return true, fmt.Errorf("path_style is %q, neither true nor false", value)
		}
		o.PathStyle = &yes
	default:
		return false, nil
	}
	return true, nil
}

var bucketShape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`) })

// maxPrefix is the maximum length of a prefix. With the longest key it fits into the 1,024 bytes of S3.
const maxPrefix = 1024 - blob.MaxKey - 1

func (o *Options) check() error {
	switch {
	case !bucketShape().MatchString(o.Bucket) || strings.Contains(o.Bucket, ".."):
		return invalid("%q is no bucket's name", o.Bucket)
	case len(o.Prefix) > maxPrefix:
		return invalid("the prefix has %d bytes; %d is the most", len(o.Prefix), maxPrefix)
	case o.Prefix != "" && blob.CheckKey(o.Prefix) != nil:
		return invalid("the prefix %q cannot be: %v", o.Prefix, blob.CheckKey(o.Prefix))
	case o.Encryption != "" && o.Encryption != "AES256" && o.Encryption != "aws:kms":
		return invalid("sse is %q, neither AES256 nor aws:kms", o.Encryption)
	case o.KMSKey != "" && o.Encryption != "aws:kms":
		return invalid("sse_kms_key_id is for sse=aws:kms")
	}
	if err := awsaddr.Check(o.Endpoint, o.Region); err != nil {
		return invalid("%w", err)
	}
	return nil
}

// pathStyle reports whether the bucket is in the path of requests. It is the default for self-hosted servers, and
// for bucket names with dots, which a wildcard certificate does not cover.
func (o *Options) pathStyle() bool {
	if o.PathStyle != nil {
		return *o.PathStyle
	}
	return o.Endpoint != "" || strings.Contains(o.Bucket, ".")
}

// base returns the text that precedes every key.
func (o *Options) base() string {
	if o.Prefix == "" {
		return ""
	}
	return o.Prefix + "/"
}

// String returns the address without secrets.
func (o Options) String() string {
	return awsaddr.Address{Name: o.Bucket, Path: o.Prefix, Endpoint: o.Endpoint}.String("s3")
}
