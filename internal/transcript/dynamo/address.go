package dynamo

import (
	"fmt"
	"regexp"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/awsaddr"
	"github.com/berthdev/berth/internal/fault"
)

// Options configure the table and its endpoint.
type Options struct {
	Table    string
	Endpoint string // http(s)://host[:port]; empty: AWS
	Region   string // empty: AWS_REGION or the like, or us-east-1 with an endpoint
	Profile  string // a profile in the files of ~/.aws; empty: AWS_PROFILE, or the default

	Credentials aws.CredentialsProvider // nil: the default chain of the AWS SDK
}

// usage describes the form of an address, for error messages.
const usage = "dynamodb://table?endpoint=http://host:port&region=us-east-1&profile=name, all after the table as needed"

func invalid(format string, args ...any) error {
	return &fault.Error{Op: "read message store address", Code: api.CodeInvalidConfig, Hint: "Write " + usage + ".", Err: fmt.Errorf(format, args...)}
}

// Parse parses the address of a store. Credentials are not part of it.
func Parse(address string) (Options, error) {
	var o Options
	a, err := awsaddr.Parse(address, "dynamodb", func(name, value string) (known bool, err error) {
		if name == "profile" {
			o.Profile = value
		}
		return name == "profile", nil
	})
	switch {
	case err != nil:
		return Options{}, invalid("%w", err)
	case a.Path != "":
		return Options{}, invalid("it has a path behind the table's name")
	}
	o.Table, o.Endpoint, o.Region = a.Name, a.Endpoint, a.Region
	return o, o.check()
}

var tableShape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_.-]{3,255}$`) })

func (o Options) check() error {
	if !tableShape().MatchString(o.Table) {
		return invalid("%q is no table's name", o.Table)
	}
	if err := awsaddr.Check(o.Endpoint, o.Region); err != nil {
		return invalid("%w", err)
	}
	return nil
}

// String returns the address, which contains no secrets.
func (o Options) String() string {
	return awsaddr.Address{Name: o.Table, Endpoint: o.Endpoint}.String("dynamodb")
}
