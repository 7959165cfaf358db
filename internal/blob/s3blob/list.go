package s3blob

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/berthdev/berth/internal/blob"
)

// List yields objects ordered by key; see [blob.Store].
func (s *Store) List(ctx context.Context, prefix string, o blob.ListOptions) iter.Seq2[blob.Entry, error] {
	return func(yield func(blob.Entry, error) bool) {
		if !listable(prefix) {
			return // no key can have the prefix
		}
		in := &s3.ListObjectsV2Input{Bucket: s.bucket(), Prefix: s.name(prefix)}
		if o.After != "" {
			in.StartAfter = s.name(o.After)
		}
		if o.Folders {
			in.Delimiter = aws.String("/")
		}
		for {
			page, err := s.client.ListObjectsV2(ctx, in, s.call(ctx).with)
			if err != nil {
				yield(blob.Entry{}, s.explain("list objects", prefix, err))
				return
			}
			for _, e := range s.entries(page) {
				if e.Key > o.After && !yield(e, nil) {
					return
				}
			}
			if !*page.IsTruncated {
				return
			}
			in.ContinuationToken = page.NextContinuationToken
		}
	}
}

// listable reports whether keys with the prefix can exist. The text before its last slash must be a valid key.
func listable(prefix string) bool {
	folder, _ := strings.CutSuffix(prefix[:strings.LastIndexByte(prefix, '/')+1], "/")
	return !strings.HasPrefix(prefix, "/") && (folder == "" || blob.CheckKey(folder) == nil)
}

// entries returns the objects and folders of a page, sorted by key.
func (s *Store) entries(page *s3.ListObjectsV2Output) []blob.Entry {
	var all []blob.Entry
	for _, o := range page.Contents {
		key, ours := s.keyOf(o.Key)
		if !ours || blob.CheckKey(key) != nil {
			continue
		}
		e := blob.Entry{Key: key, Size: aws.ToInt64(o.Size), Tag: blob.Tag(aws.ToString(o.ETag))}
		if o.LastModified != nil {
			e.At = *o.LastModified
		}
		all = append(all, e)
	}
	for _, f := range page.CommonPrefixes {
		key, ours := s.keyOf(f.Prefix)
		if name, ok := strings.CutSuffix(key, "/"); ours && ok && blob.CheckKey(name) == nil {
			all = append(all, blob.Entry{Key: key, Folder: true})
		}
	}
	slices.SortFunc(all, func(a, b blob.Entry) int { return strings.Compare(a.Key, b.Key) })
	return all
}

func (s *Store) keyOf(name *string) (string, bool) {
	return strings.CutPrefix(aws.ToString(name), s.base())
}
