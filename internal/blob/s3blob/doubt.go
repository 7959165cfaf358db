//go:build !seeded_lostreply && !seeded_shortbody

package s3blob

// A refusal after a lost answer is doubted, and a body has to be whole.
const doubtful, demanding = true, true
