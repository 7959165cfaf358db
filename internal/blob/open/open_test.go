package open

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/testkit/s3test"
)

func TestAddresses(t *testing.T) {
	s3test.Setenv(t)
	dir := t.TempDir()
	for address, shows := range map[string]string{
		dir + "/plain":                    "file://" + dir + "/plain",
		"file://" + dir + "/with%20space": "file://" + dir + "/with space",
		s3test.New(t).URL("some/prefix"):  "/some/prefix",
	} {
		s, err := Store(t.Context(), address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if conditional, err := blob.Probe(t.Context(), s); !conditional || err != nil || !strings.Contains(s.String(), shows) {
			t.Errorf("%s is %s: %v, %v", address, s, conditional, err)
		}
	}
	if s, err := Store(t.Context(), "none"); s != nil || err != nil {
		t.Errorf("none: %v, %v", s, err)
	}
}

func TestRelativePaths(t *testing.T) {
	t.Chdir(t.TempDir())
	s, err := Store(t.Context(), "here")
	if err != nil || !filepath.IsAbs(strings.TrimPrefix(s.String(), "file://")) {
		t.Errorf("%v, %v", s, err)
	}
}

func TestAddressesThatAreRefused(t *testing.T) {
	s3test.Setenv(t)
	for _, address := range []string{
		"", "a\x00b", "gs://bucket", "file://host/path", "file://relative", "file:///p?x=1", "file:///%zz", "s3://B", "s3://key:secret@bucket",
	} {
		s, err := Store(t.Context(), address)
		if s != nil || fault.CodeOf(err) != api.CodeInvalidConfig || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, %v", address, s, err)
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	if s, err := Store(t.Context(), "s3://bucket?region=us-east-1"); s != nil || fault.CodeOf(err) != api.CodeBlobCredentials {
		t.Errorf("without credentials: %v, %v", s, err)
	}
	if s, err := Store(t.Context(), "/dev/null/x"); s != nil || err == nil {
		t.Errorf("below a file: %v, %v", s, err)
	}
}
