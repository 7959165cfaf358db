package cli

import (
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/s3test"
)

func TestWorkspaceOnS3(t *testing.T) {
	testkit.Proves(t, "S13")
	s3test.Setenv(t)
	bucket := s3test.New(t)
	d := newDesk(t)
	d.env["BERTH_OBJECT_STORE"] = bucket.URL("some/place")
	files := map[string]string{"a": "1", "dir/b": "2", "empty/": "", "link": "->a"}
	here := d.tree("here", files)
	if res := d.synced("push", "--prefix", "p", here); !res.New || res.FilesUploaded != 2 {
		t.Errorf("%+v", res)
	}
	d.does("pull", "--prefix", "p", d.path("there"))
	d.has("there", files)
	contains(t, "verify", d.does("verify", "--prefix", "p"), "1 version is whole: read 2 files")
	d.refuses(api.CodeUnknownVersion, []string{"nothing is saved in s3://" + bucket.Name + "/some/place"}, "show")

	gone := strings.Replace(bucket.URL(""), bucket.Name, "no-such-bucket", 1)
	d.refuses(api.CodeBlobNoBucket, []string{"no-such-bucket", "correct its name in --store"}, "push", "--store", gone, here)
	d.refuses(api.CodeBlobNoBucket, []string{"no-such-bucket"}, "versions", "--store", gone)
	d.refuses(api.CodeInvalidConfig, []string{"gs://", "s3://bucket/prefix?endpoint="}, "push", "--store", "gs://bucket", here)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	d.refuses(api.CodeBlobCredentials, []string{"AWS_ACCESS_KEY_ID"}, "sync", "--prefix", "p", here)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	d.refuses(api.CodeBlobCredentials, []string{"AWS_ACCESS_KEY_ID"}, "push", "--prefix", "p", here)
}
