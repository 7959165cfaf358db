// Package awsaddr reads addresses of what a service of AWS keeps, or one that speaks like it:
// scheme://name/path?endpoint=http://host:port&region=us-east-1, and what else a service has.
package awsaddr

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
)

// Address is an address in its parts.
type Address struct {
	Name     string
	Path     string // without slashes around it
	Endpoint string // http(s)://host[:port]; empty: AWS
	Region   string // empty: AWS_REGION and the like
}

var (
	errUnreadable  = errors.New("it is not a readable URL")
	errCredentials = errors.New("carries credentials; leave them to AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	regionShape    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9-]{0,40}$`) })
)

// Parse reads an address. What the service has in it of its own is told to set, which says whether it knows the
// name. No error has a secret in it: an address that has one is refused.
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

// Check says what is wrong with an endpoint and a region, both of which may be empty.
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

// String is the address again, without what the service has of its own. It has no secrets.
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
