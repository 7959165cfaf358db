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

func parseDatabase(raw string) (DSN, *fault) {
	const fix = "write postgres://user:password@host:5432/name, with special characters of the password percent-encoded, or leave it empty for SQLite"
	if raw == "" {
		return "", nil
	}
	// What url.Parse says may quote the password, so none of it is repeated.
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", faultf(fix, "is not a readable URL")
	case u.Scheme != "postgres" && u.Scheme != "postgresql":
		return "", faultf(fix, "does not begin with postgres:// or postgresql://")
	case u.Opaque != "", u.Host == "" && u.Query().Get("host") == "":
		return "", faultf(fix, "names no host")
	case u.Fragment != "", strings.Contains(u.Path+u.RawQuery, "@"):
		return "", faultf(fix, "has a '#', '/' or '?' that cuts it apart")
	}
	return DSN(raw), nil
}

func parseObjectStore(raw string) (string, *fault) {
	const fix = "write s3://bucket/prefix?endpoint=…&region=…, file:///path, an absolute path, or none"
	switch {
	case raw == "", raw == "none":
		return raw, nil
	case strings.ContainsRune(raw, 0):
		return "", faultf(fix, "contains a NUL byte")
	case filepath.IsAbs(raw):
		return filepath.Clean(raw), nil
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", faultf(fix, "is not a readable URL")
	case u.Scheme == "file":
		return checkFileURL(raw, u, fix)
	case u.Scheme == "s3":
		return checkS3(raw, u, fix)
	case u.Scheme == "":
		return "", faultf(fix, "is a relative path")
	}
	return "", faultf(fix, "has the unknown scheme %q", u.Scheme)
}

func checkFileURL(raw string, u *url.URL, fix string) (string, *fault) {
	if u.Host != "" || u.Opaque != "" || !filepath.IsAbs(u.Path) || u.RawQuery != "" || u.Fragment != "" {
		return "", faultf(fix, "is not file:// and an absolute path")
	}
	return raw, nil
}

func checkS3(raw string, u *url.URL, fix string) (string, *fault) {
	if _, f := parseBucket(u.Host); f != nil {
		return "", faultf(fix, "names no valid bucket")
	}
	return checkStoreURL(raw, u, fix, "path_style", "sse", "sse_kms_key_id")
}

func parseMessageStore(raw string) (string, *fault) {
	const fix = "write dynamodb://table?endpoint=…&region=…&profile=…, or leave it empty for the database"
	if raw == "" {
		return "", nil
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", faultf(fix, "is not a readable URL")
	case u.Scheme != "dynamodb":
		return "", faultf(fix, "does not begin with dynamodb://")
	case !tableShape().MatchString(u.Host), strings.Trim(u.Path, "/") != "":
		return "", faultf(fix, "names no valid table")
	}
	return checkStoreURL(raw, u, fix, "profile")
}

// checkStoreURL holds what s3:// and dynamodb:// have in common: credentials
// stay out of the URL, and only endpoint and region are asked.
func checkStoreURL(raw string, u *url.URL, fix string, more ...string) (string, *fault) {
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case u.User != nil:
		return "", faultf("leave them to AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "carries credentials")
	case err != nil, u.Fragment != "":
		return "", faultf(fix, "is not a readable URL")
	}
	for name := range query {
		if !slices.Contains(append(more, "endpoint", "region"), name) {
			return "", faultf(fix, "has the unknown parameter %q", name)
		}
	}
	if endpoint := query.Get("endpoint"); endpoint != "" {
		if _, f := parseHTTPURL(endpoint); f != nil {
			return "", faultf("write endpoint=http://host:port or https://host", "has an endpoint that is no http or https URL")
		}
	}
	return raw, nil
}

func parseBucket(raw string) (string, *fault) {
	if !bucketShape().MatchString(raw) || strings.Contains(raw, "..") {
		return "", faultf("write 3 to 63 of a-z, 0-9, '.' and '-'", "is not a bucket name")
	}
	return raw, nil
}

func parseHTTPURL(raw string) (string, *fault) {
	const fix = "write https://host or http://host:port"
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", faultf(fix, "is not a readable URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", faultf(fix, "does not begin with http:// or https://")
	case u.Hostname() == "":
		return "", faultf(fix, "names no host")
	case u.User != nil:
		return "", faultf(fix, "carries credentials")
	}
	return raw, nil
}
