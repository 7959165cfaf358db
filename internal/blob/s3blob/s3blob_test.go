package s3blob

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/testkit/s3test"
)

func TestAddresses(t *testing.T) {
	yes, no := true, false
	for address, want := range map[string]Options{
		"s3://bucket":                 {Bucket: "bucket"},
		"s3://bucket/":                {Bucket: "bucket"},
		"s3://bucket/some/prefix/":    {Bucket: "bucket", Prefix: "some/prefix"},
		"s3://bucket?region=eu-west1": {Bucket: "bucket", Region: "eu-west1"},
		"s3://bucket/p?endpoint=http://127.0.0.1:9000/&path_style=false":                    {Bucket: "bucket", Prefix: "p", Endpoint: "http://127.0.0.1:9000", PathStyle: &no},
		"s3://bucket?endpoint=https%3A%2F%2Fs3.example.com&path_style=1&sse=AES256":         {Bucket: "bucket", Endpoint: "https://s3.example.com", PathStyle: &yes, Encryption: "AES256"},
		"s3://bucket?sse=aws:kms&sse_kms_key_id=arn:aws:kms:us-east-1:111122223333:key/abc": {Bucket: "bucket", Encryption: "aws:kms", KMSKey: "arn:aws:kms:us-east-1:111122223333:key/abc"},
	} {
		got, err := Parse(address)
		if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) || (got.PathStyle == nil) != (want.PathStyle == nil) ||
			got.PathStyle != nil && *got.PathStyle != *want.PathStyle || got.Encryption != want.Encryption || got.KMSKey != want.KMSKey || got.Region != want.Region {
			t.Errorf("%s: %+v, %v", address, got, err)
		}
	}
	for address, says := range map[string]string{
		"http://bucket":                           "s3://",
		"s3://%zz":                                "readable",
		"s3://AKID:hunter2@bucket":                "credentials",
		"s3://b":                                  "bucket",
		"s3://buck..et":                           "bucket",
		"s3://Bucket":                             "bucket",
		"s3://bucket#x":                           "readable",
		"s3://bucket?a=%zz":                       "readable",
		"s3://bucket?acl=public":                  "unknown parameter",
		"s3://bucket?endpoint=minio:9000":         "http",
		"s3://bucket?endpoint=http://":            "http",
		"s3://bucket?endpoint=http://a:hunter2@b": "credentials",
		"s3://bucket?endpoint=http://host/path":   "host and a port",
		"s3://bucket?region=eu west":              "region",
		"s3://bucket?path_style=maybe":            "path_style",
		"s3://bucket?sse=rot13":                   "rot13",
		"s3://bucket?sse_kms_key_id=x":            "aws:kms",
		"s3://bucket/a//b":                        "prefix",
		"s3://bucket/" + strings.Repeat("p", 124): "prefix",
	} {
		_, err := Parse(address)
		if fault.CodeOf(err) != api.CodeInvalidConfig || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestPathStyle(t *testing.T) {
	no := false
	for _, c := range []struct {
		o    Options
		want bool
	}{
		{Options{Bucket: "bucket"}, false}, {Options{Bucket: "with.dots"}, true},
		{Options{Bucket: "bucket", Endpoint: "http://x"}, true}, {Options{Bucket: "bucket", Endpoint: "http://x", PathStyle: &no}, false},
	} {
		if c.o.pathStyle() != c.want {
			t.Errorf("%s: %v", c.o, !c.want)
		}
	}
}

// TestEncryptionIsAskedFor looks at the requests: the test server cannot encrypt.
func TestEncryptionIsAskedFor(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		name := r.Method
		if r.Header.Get("X-Amz-Copy-Source") != "" {
			name = "COPY"
		}
		asked[name] = r.Header.Get("X-Amz-Server-Side-Encryption") + " " + r.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id")
		w.WriteHeader(http.StatusTeapot)
	}))
	defer server.Close()
	o := options(s3test.Bucket{Name: "bucket", Endpoint: server.URL}, "")
	o.Encryption, o.KMSKey = "aws:kms", "my-key"
	each(open(t, o))
	for _, name := range []string{"PUT", "POST", "COPY"} {
		if asked[name] != "aws:kms my-key" && name != "POST" {
			t.Errorf("%s asked for %q", name, asked[name])
		}
	}
}

// TestBytesAreSigned: what is sent is signed with its hash, and without the checksums that many refuse.
func TestBytesAreSigned(t *testing.T) {
	s, p := behind(t)
	var mu sync.Mutex
	seen := 0
	p.Set(s3test.Faults{Only: func(r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPut {
			seen++
			if hash := r.Header.Get("X-Amz-Content-Sha256"); len(hash) != 64 {
				t.Errorf("%s is signed as %q", r.URL, hash)
			}
			for name := range r.Header {
				if strings.HasPrefix(name, "X-Amz-Checksum") || strings.HasPrefix(name, "X-Amz-Sdk-Checksum") || name == "X-Amz-Trailer" {
					t.Errorf("%s has %s", r.URL, name)
				}
			}
		}
		return false
	}})
	big := bytes.Repeat([]byte("x"), 17<<20)
	for _, size := range []int{10, len(big)} {
		if _, err := s.Put(t.Context(), "x", bytes.NewReader(big), int64(size), blob.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if seen != 1+3 {
		t.Errorf("%d requests were seen", seen)
	}
}

// TestCopyInParts has a server that copies at most 6 MiB at once, where S3 does 5 GiB.
func TestCopyInParts(t *testing.T) {
	s := open(t, options(s3test.Start(t, s3test.Options{Args: []string{"--copy-object-threshold", fmt.Sprint(6 << 20)}}).Bucket(t), "p"))
	s.limits.copyPart = 5 << 20
	text := bytes.Repeat([]byte("0123456789abcdef"), 13<<16)
	if _, err := s.Put(t.Context(), "from", bytes.NewReader(text), int64(len(text)), blob.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Copy(t.Context(), "from", "to it"); err != nil {
		t.Fatal(err)
	}
	object, err := s.Get(t.Context(), "to it", blob.GetOptions{Offset: int64(len(text)) - 100})
	if err != nil || object.Size != int64(len(text)) {
		t.Fatalf("%+v, %v", object, err)
	}
	_ = object.Body.Close()
	s.limits.copyPart = 1 << 30
	if err := s.Copy(t.Context(), "from", "again"); fault.CodeOf(err) != api.CodeBlobRefused {
		t.Errorf("a refusal for another reason: %v", err)
	}
}

// TestServersWithoutDeletesOfMany falls back to one at a time.
func TestServersWithoutDeletesOfMany(t *testing.T) {
	b := s3test.New(t)
	p := s3test.Proxy(t, b.Endpoint)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Query().Has("delete") {
			if r.Header.Get("Content-Md5") == "" {
				t.Error("a delete of many has no MD5")
			}
			w.WriteHeader(http.StatusNotImplemented)
			fmt.Fprint(w, "<Error><Code>NotImplemented</Code></Error>")
			return
		}
		p.ServeHTTP(w, r)
	}))
	defer server.Close()
	b.Endpoint = server.URL
	s := open(t, options(b, ""))
	for _, key := range []string{"a", "b"} {
		if _, err := s.Put(t.Context(), key, strings.NewReader(key), 1, blob.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Delete(t.Context(), "a", "b", "never"); err != nil {
		t.Fatal(err)
	}
	for e, err := range s.List(t.Context(), "", blob.ListOptions{}) {
		t.Errorf("left: %+v, %v", e, err)
	}
}

// TestRangesThatAreNotThoseAskedFor never takes other bytes for the wanted ones.
func TestRangesThatAreNotThoseAskedFor(t *testing.T) {
	for _, c := range []struct {
		status int
		says   string
	}{{200, ""}, {206, "bytes 0-3/10"}, {206, "bytes 3-9/10"}, {206, "bytes 3-6/5"}, {206, "nonsense"}} {
		header := http.Header{"Etag": {`"x"`}}
		if c.says != "" {
			header.Set("Content-Range", c.says)
		}
		s := open(t, options(s3test.Bucket{Name: "bucket", Endpoint: canned(t, c.status, header, "abcd")}, ""))
		if object, err := s.Get(t.Context(), "x", blob.GetOptions{Offset: 3, Length: 4}); err == nil {
			t.Errorf("%d, %q: %+v", c.status, c.says, object)
		}
	}
}

// TestForeignKeysAreLeftOut: consoles make folders of objects whose names end with a slash.
func TestForeignKeysAreLeftOut(t *testing.T) {
	b := s3test.New(t)
	s, below := open(t, options(b, "")), open(t, options(b, "folder"))
	for _, name := range []string{"folder/", "folder/x"} {
		if _, err := s.client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: s.bucket(), Key: aws.String(name), Body: strings.NewReader("")}); err != nil {
			t.Fatal(err)
		}
	}
	for store, want := range map[*Store][]string{s: {"folder/x"}, below: {"x"}} {
		var got []string
		for e, err := range store.List(t.Context(), "", blob.ListOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Key)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has %q", store, got)
		}
	}
}

// A completion may fail although the answer begins with 200.
func TestFailureInAnAnswerOfSuccess(t *testing.T) {
	b := s3test.New(t)
	p := s3test.Proxy(t, b.Endpoint)
	tries := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Query().Has("uploadId") {
			if tries++; tries == 1 {
				fmt.Fprint(w, "<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>")
				return
			}
		}
		p.ServeHTTP(w, r)
	}))
	defer server.Close()
	b.Endpoint = server.URL
	s := open(t, options(b, ""))
	if _, err := s.Put(t.Context(), "x", bytes.NewReader(make([]byte, 17<<20)), 17<<20, blob.PutOptions{IfAbsent: true}); err != nil || tries != 2 {
		t.Errorf("%d tries, %v", tries, err)
	}
}
