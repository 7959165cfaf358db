package config

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

var (
	bucketShape = lazy(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	tableShape  = lazy(`^[a-zA-Z0-9_.-]{3,255}$`)
)

func parseDatabase(raw string) (DSN, *badValue) {
	const fix = "write postgres://user:password@host:5432/name, with special characters of the password percent-encoded, or leave it empty for SQLite"
	if raw == "" {
		return "", nil
	}
	// The error of url.Parse may quote the password, so it is not repeated.
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", badValuef(fix, "is not a readable URL")
	case u.Scheme != "postgres" && u.Scheme != "postgresql":
		return "", badValuef(fix, "does not begin with postgres:// or postgresql://")
	case u.Opaque != "", u.Host == "" && u.Query().Get("host") == "":
		return "", badValuef(fix, "names no host")
	case u.Fragment != "", strings.Contains(u.Path+u.RawQuery, "@"):
		return "", badValuef(fix, "has a '#', '/' or '?' that cuts it apart")
	}
	return DSN(raw), nil
}

func parseObjectStore(raw string) (string, *badValue) {
	const fix = "write s3://bucket/prefix?endpoint=…&region=…, file:///path, an absolute path, or none"
	switch {
	case raw == "", raw == "none":
		return raw, nil
	case strings.ContainsRune(raw, 0):
		return "", badValuef(fix, "contains a NUL byte")
	case filepath.IsAbs(raw):
		return filepath.Clean(raw), nil
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", badValuef(fix, "is not a readable URL")
	case u.Scheme == "file":
		return checkFileURL(raw, u, fix)
	case u.Scheme == "s3":
		return checkS3(raw, u, fix)
	case u.Scheme == "":
		return "", badValuef(fix, "is a relative path")
	}
	return "", badValuef(fix, "has the unknown scheme %q", u.Scheme)
}

func checkFileURL(raw string, u *url.URL, fix string) (string, *badValue) {
	if u.Host != "" || u.Opaque != "" || !filepath.IsAbs(u.Path) || u.RawQuery != "" || u.Fragment != "" {
		return "", badValuef(fix, "is not file:// and an absolute path")
	}
	return raw, nil
}

func checkS3(raw string, u *url.URL, fix string) (string, *badValue) {
	if _, f := parseBucket(u.Host); f != nil {
		return "", badValuef(fix, "names no valid bucket")
	}
	return checkStoreURL(raw, u, fix, "path_style", "sse", "sse_kms_key_id")
}

func parseMessageStore(raw string) (string, *badValue) {
	const fix = "write dynamodb://table?endpoint=…&region=…&profile=…, or leave it empty for the database"
	if raw == "" {
		return "", nil
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", badValuef(fix, "is not a readable URL")
	case u.Scheme != "dynamodb":
		return "", badValuef(fix, "does not begin with dynamodb://")
	case !tableShape().MatchString(u.Host), strings.Trim(u.Path, "/") != "":
		return "", badValuef(fix, "names no valid table")
	}
	return checkStoreURL(raw, u, fix, "profile")
}

// checkStoreURL checks the common parts of s3:// and dynamodb:// URLs. They must not hold credentials. The allowed
// parameters are endpoint, region and those in more.
func checkStoreURL(raw string, u *url.URL, fix string, more ...string) (string, *badValue) {
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case u.User != nil:
		return "", badValuef("leave them to AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "carries credentials")
	case err != nil, u.Fragment != "":
		return "", badValuef(fix, "is not a readable URL")
	}
	for name := range query {
		if !slices.Contains(append(more, "endpoint", "region"), name) {
			return "", badValuef(fix, "has the unknown parameter %q", name)
		}
	}
	if endpoint := query.Get("endpoint"); endpoint != "" {
		if _, f := parseHTTPURL(endpoint); f != nil {
			return "", badValuef("write endpoint=http://host:port or https://host", "has an endpoint that is no http or https URL")
		}
	}
	return raw, nil
}

func parseBucket(raw string) (string, *badValue) {
	if !bucketShape().MatchString(raw) || strings.Contains(raw, "..") {
		return "", badValuef("write 3 to 63 of a-z, 0-9, '.' and '-'", "is not a bucket name")
	}
	return raw, nil
}

func parseHTTPURL(raw string) (string, *badValue) {
	const fix = "write https://host or http://host:port"
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", badValuef(fix, "is not a readable URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", badValuef(fix, "does not begin with http:// or https://")
	case u.Hostname() == "":
		return "", badValuef(fix, "names no host")
	case u.User != nil:
		return "", badValuef(fix, "carries credentials")
	}
	return raw, nil
}
