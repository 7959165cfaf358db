//go:build !seeded_overwrite

package dynamo

import "github.com/aws/aws-sdk-go-v2/aws"

// onlyNew is the condition of putting a head: what is there stays as it is.
func onlyNew() *string { return aws.String("attribute_not_exists(sk)") }
