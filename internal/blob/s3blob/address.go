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
	"github.com/berthdev/berth/internal/sandbox"
)

// Options say which bucket, where, and how.
type Options struct {
	Bucket     string
	Prefix     string // below which everything is; may be empty
	Endpoint   string // http(s)://host[:port]; empty: AWS
	Region     string // empty: AWS_REGION and the like; us-east-1 with an endpoint
	PathStyle  *bool  // the bucket stands in the path, not in the host name; nil: with an endpoint, yes
	Encryption string // of objects at the server: AES256, aws:kms, or empty for the bucket's own
	KMSKey     string // with aws:kms; empty: the account's

	Credentials aws.CredentialsProvider // nil: where the AWS tools take them from
}

// usage is how an address is written.
const usage = "s3://bucket/prefix?endpoint=http://host:port&region=us-east-1&path_style=true&sse=AES256|aws:kms&sse_kms_key_id=…, all after the bucket as needed"

func invalid(format string, args ...any) error {
	return &sandbox.Error{Op: "read object store address", Code: api.CodeInvalidConfig, Hint: "Write " + usage + ".", Err: fmt.Errorf(format, args...)}
}

// Parse reads the address of a store. Credentials do not belong there.
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

// maxPrefix leaves room for the longest key in S3's 1,024 bytes.
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

// pathStyle is how most servers of one's own want it; a certificate for one label below a host does not
// cover a bucket with dots.
func (o *Options) pathStyle() bool {
	if o.PathStyle != nil {
		return *o.PathStyle
	}
	return o.Endpoint != "" || strings.Contains(o.Bucket, ".")
}

// base stands before every key.
func (o *Options) base() string {
	if o.Prefix == "" {
		return ""
	}
	return o.Prefix + "/"
}

// String is the address, which has no secrets.
func (o Options) String() string {
	return awsaddr.Address{Name: o.Bucket, Path: o.Prefix, Endpoint: o.Endpoint}.String("s3")
}
