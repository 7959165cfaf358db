// Package awsaddr parses addresses of AWS services and of servers with a compatible API. Their form is
// scheme://name/path?endpoint=http://host:port&region=us-east-1. A service can have further parameters.
package awsaddr

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
)

// Address holds the parts of an address.
type Address struct {
	Name     string
	Path     string // without leading and trailing slashes
	Endpoint string // http(s)://host[:port]; empty: AWS
	Region   string // empty: the SDK's default, such as AWS_REGION
}

var (
	errUnreadable  = errors.New("it is not a readable URL")
	errCredentials = errors.New("carries credentials; leave them to AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	regionShape    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9-]{0,40}$`) })
)

// Parse parses an address. It passes further parameters to set, which reports whether it knows the name. Parse refuses
// an address with credentials, and its errors contain no credentials.
func Parse(address, scheme string, set func(name, value string) (known bool, err error)) (Address, error) {
	u, err := url.Parse(address)
	if err != nil {
		return Address{}, errUnreadable
	}
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case u.Scheme != scheme:
		return Address{}, fmt.Errorf("it does not begin with %s://", scheme)
	case u.User != nil:
		return Address{}, fmt.Errorf("it %w", errCredentials)
	case err != nil || u.Fragment != "" || u.Opaque != "":
		return Address{}, errUnreadable
	}
	a := Address{Name: u.Host, Path: strings.Trim(u.Path, "/")}
	for name, values := range query {
		value := values[len(values)-1]
		switch name {
		case "endpoint":
			a.Endpoint = strings.TrimSuffix(value, "/")
			continue
		case "region":
			a.Region = value
			continue
		}
		if known, err := set(name, value); err != nil {
			return Address{}, err
		} else if !known {
			return Address{}, fmt.Errorf("it has the unknown parameter %q", name)
		}
	}
	return a, Check(a.Endpoint, a.Region)
}

// Check returns an error if an endpoint or a region is not valid. Both may be empty.
func Check(endpoint, region string) error {
	if !regionShape().MatchString(region) {
		return fmt.Errorf("%q is no region", region)
	}
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("the endpoint is no http or https URL")
	case u.User != nil:
		return fmt.Errorf("the endpoint %w", errCredentials)
	case u.Path != "" || u.RawQuery != "" || u.Fragment != "":
		return errors.New("the endpoint has more than a host and a port")
	}
	return nil
}

// String returns the address without the service's parameters. It contains no secrets.
func (a Address) String(scheme string) string {
	address := scheme + "://" + a.Name
	if a.Path != "" {
		address += "/" + a.Path
	}
	if a.Endpoint != "" {
		address += "?endpoint=" + a.Endpoint
	}
	return address
}
