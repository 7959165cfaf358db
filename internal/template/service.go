package template

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/sandbox"
)

// Service is an upstream of the server that sandboxes reach at an address inside.
type Service struct {
	URL string
	// Headers are set on every request outside the sandbox, by name. A value may contain $NAME or ${NAME} for a secret
	// of the sandbox's tenant or a variable of the server, and $$ for a dollar sign.
	Headers map[string]string
}

// UnmarshalTOML reads a URL, or a table of url and headers.
func (s *Service) UnmarshalTOML(v any) error {
	const fix = `write "http://host:port", or {url = "https://host", headers = {"x-api-key" = "$NAME"}}`
	if text, ok := v.(string); ok {
		s.URL = text
		return nil
	}
	table, ok := v.(map[string]any)
	if !ok {
		return &config.Misfit{Why: "is neither a URL nor a table", Fix: fix}
	}
	for key, value := range table {
		switch key {
		case "url":
			s.URL, ok = value.(string)
		case "headers":
			s.Headers, ok = stringTable(value)
		default:
			return &config.Misfit{Why: fmt.Sprintf("has a key %q that services do not have", key), Fix: fix}
		}
		if !ok {
			return &config.Misfit{Why: "has a type in " + key + " that does not fit", Fix: fix}
		}
	}
	return nil
}

func stringTable(v any) (map[string]string, bool) {
	table, ok := v.(map[string]any)
	out := make(map[string]string, len(table))
	for name, value := range table {
		text, isText := value.(string)
		out[name], ok = text, ok && isText
	}
	return out, ok
}

// ServiceURLs returns the URLs of the template's services by the address inside.
func (t Template) ServiceURLs() map[string]string {
	if t.Services == nil {
		return nil
	}
	urls := make(map[string]string, len(t.Services))
	for inside, s := range t.Services {
		urls[inside] = s.URL
	}
	return urls
}

func cloneServices(all map[string]Service) map[string]Service {
	out := maps.Clone(all)
	for inside, s := range out {
		s.Headers = maps.Clone(s.Headers)
		out[inside] = s
	}
	return out
}

// references returns the names of the variables in the value of a header, sorted.
func references(value string) []string {
	var names []string
	os.Expand(value, func(name string) string {
		if name != "$" {
			names = append(names, name)
		}
		return ""
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// HasHeaders reports whether a service of the template has headers.
func (t Template) HasHeaders() bool {
	for _, s := range t.Services {
		if len(s.Headers) > 0 {
			return true
		}
	}
	return false
}

// Secrets returns the names of the secrets and variables in the headers of the service, sorted.
func (s Service) Secrets() (names []string) {
	for _, value := range s.Headers {
		names = append(names, references(value)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// HeaderNames returns the names of the secrets and variables in the headers of the template's services, sorted.
func (t Template) HeaderNames() (names []string) {
	for _, s := range t.Services {
		names = append(names, s.Secrets()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ServiceHeaders returns the headers of the template's services by the address inside and the name, with the values of
// their variables. A header with a variable that has no value is empty.
func (t Template) ServiceHeaders(values map[string]string) map[string]map[string]string {
	all := map[string]map[string]string{}
	for inside, s := range t.Services {
		for name, value := range s.Headers {
			if all[inside] == nil {
				all[inside] = map[string]string{}
			}
			all[inside][name] = fillIn(value, values)
		}
	}
	return all
}

// fillIn replaces the variables in the value of a header. It returns the empty string if one has no value.
func fillIn(value string, values map[string]string) string {
	complete := true
	text := os.Expand(value, func(name string) string {
		if name == "$" {
			return "$"
		}
		complete = complete && values[name] != ""
		return values[name]
	})
	if !complete {
		return ""
	}
	return text
}

func (c *checker) checkServices() {
	for _, inside := range sortedKeys(c.Services) {
		s, key := c.Services[inside], `services."`+inside+`"`
		if _, err := egress.ParseServices(map[string]string{inside: s.URL}); err != nil {
			why := strings.TrimPrefix(err.Error(), fmt.Sprintf("service %q: ", inside))
			c.refuse(key, "", "is no service: "+why, `write "127.0.0.1:8788" = "http://host:port", or tcp://host:port`)
			continue
		}
		c.checkHeaders(key, s)
	}
}

// checkHeaders refuses headers that a service cannot set. Its problems do not contain values.
func (c *checker) checkHeaders(key string, s Service) {
	if len(s.Headers) > 0 && strings.HasPrefix(s.URL, "tcp:") {
		c.refuse(key, "", "has headers, which connections of tcp do not have", "write an http:// or https:// URL, or leave the headers out")
		return
	}
	for _, name := range sortedKeys(s.Headers) {
		value := s.Headers[name]
		if err := egress.CheckHeader(name); err != nil {
			c.refuse(key+".headers", "", "cannot be used: "+err.Error(), `write names such as "x-api-key" or "authorization"`)
		}
		if strings.TrimSpace(value) == "" {
			c.refuse(key+".headers", name, "has no value", `write "$NAME", where NAME is a secret ('berth secret set NAME') or a variable of the server`)
		}
		for _, variable := range references(value) {
			switch {
			case strings.HasPrefix(variable, "BERTH_"):
				c.refuse(key+".headers", variable, "is a setting of the server", "name another variable or a secret")
			case sandbox.CheckEnv(map[string]string{variable: ""}) != nil:
				c.refuse(key+".headers", name, "has a \"$\" that is followed by no name of a variable", `write "$NAME", and "$$" for a dollar sign`)
			}
		}
	}
}
