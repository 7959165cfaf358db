package dynamo

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// Options say which table, and where.
type Options struct {
	Table    string
	Endpoint string // http(s)://host[:port]; empty: AWS
	Region   string // empty: AWS_REGION and the like; us-east-1 with an endpoint
	Profile  string // of the files in ~/.aws; empty: AWS_PROFILE, or the default

	Credentials aws.CredentialsProvider // nil: where the AWS tools take them from
}

// usage is how an address is written.
const usage = "dynamodb://table?endpoint=http://host:port&region=us-east-1&profile=name, all after the table as needed"

func invalid(format string, args ...any) error {
	return &sandbox.Error{Op: "read message store address", Code: api.CodeInvalidConfig, Hint: "Write " + usage + ".", Err: fmt.Errorf(format, args...)}
}

// Parse reads the address of a store. Credentials do not belong there.
func Parse(address string) (Options, error) {
	u, err := url.Parse(address)
	if err != nil {
		return Options{}, invalid("it is not a readable URL") // err may have a secret in it
	}
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case u.Scheme != "dynamodb":
		return Options{}, invalid("it does not begin with dynamodb://")
	case u.User != nil:
		return Options{}, invalid("it carries credentials; leave them to AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	case err != nil || u.Fragment != "" || u.Opaque != "" || strings.Trim(u.Path, "/") != "":
		return Options{}, invalid("it is not a readable URL")
	}
	o := Options{Table: u.Host}
	for name, values := range query {
		value := values[len(values)-1]
		switch name {
		case "endpoint":
			o.Endpoint = strings.TrimSuffix(value, "/")
		case "region":
			o.Region = value
		case "profile":
			o.Profile = value
		default:
			return Options{}, invalid("it has the unknown parameter %q", name)
		}
	}
	return o, o.check()
}

var (
	tableShape  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_.-]{3,255}$`) })
	regionShape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9-]{0,40}$`) })
)

func (o Options) check() error {
	switch {
	case !tableShape().MatchString(o.Table):
		return invalid("%q is no table's name", o.Table)
	case !regionShape().MatchString(o.Region):
		return invalid("%q is no region", o.Region)
	case o.Endpoint == "":
		return nil
	}
	u, err := url.Parse(o.Endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return invalid("the endpoint is no http or https URL")
	case u.User != nil:
		return invalid("the endpoint carries credentials; leave them to AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	case u.Path != "" || u.RawQuery != "" || u.Fragment != "":
		return invalid("the endpoint has more than a host and a port")
	}
	return nil
}

// String is the address, which has no secrets.
func (o Options) String() string {
	address := "dynamodb://" + o.Table
	if o.Endpoint != "" {
		address += "?endpoint=" + o.Endpoint
	}
	return address
}
