package awsaddr_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/awsaddr"
)

func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"x://name": "x://name",
		"x://name/a/b/?endpoint=http://h:1/&region=eu-1&own=1": "x://name/a/b?endpoint=http://h:1",
		"y://name":                             "does not begin with x://",
		"x://\x00":                             "not a readable URL",
		"x://name?a=%zz":                       "not a readable URL",
		"x://name#part":                        "not a readable URL",
		"x://key:secret@name":                  "it carries credentials",
		"x://name?else=1":                      `the unknown parameter "else"`,
		"x://name?own=bad":                     "own is bad",
		"x://name?region=a/b":                  `"a/b" is no region`,
		"x://name?endpoint=ftp://h":            "no http or https URL",
		"x://name?endpoint=http://k:secret@h":  "the endpoint carries credentials",
		"x://name?endpoint=http://h/and/more":  "more than a host and a port",
		"x://name?endpoint=http://h:bad%20one": "no http or https URL",
	} {
		a, err := awsaddr.Parse(address, "x", func(name, value string) (bool, error) {
			if value == "bad" {
				return true, errors.New("own is bad")
			}
			return name == "own", nil
		})
		got := a.String("x")
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || strings.Contains(got, "secret") {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
