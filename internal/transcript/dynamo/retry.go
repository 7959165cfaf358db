package dynamo

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// call is one request and its tries. It is the SDK's retryer: it goes on for as long as the failure may pass
// and there is time.
type call struct {
	*retry.Standard
	pause time.Duration
	ctx   context.Context
	last  error // of the tries
}

func (s *Store) call(ctx context.Context) *call {
	return &call{ctx: ctx, pause: s.limits.pause, Standard: retry.NewStandard(func(o *retry.StandardOptions) {
		o.RateLimiter = ratelimit.None
	})}
}

// with is an option of the SDK's operations.
func (c *call) with(o *dynamodb.Options) { o.Retryer = c }

// MaxAttempts is none: the context is the limit.
func (c *call) MaxAttempts() int { return 0 }

// IsErrorRetryable decides about another try.
func (c *call) IsErrorRetryable(err error) bool {
	if c.ctx.Err() != nil {
		return false
	}
	c.last = err
	var network net.Error
	return c.Standard.IsErrorRetryable(err) || errors.As(err, &network) && network.Timeout()
}

// RetryDelay grows, and is random, so that many callers do not come back at once.
func (c *call) RetryDelay(attempt int, _ error) (time.Duration, error) {
	return c.delay(attempt), nil
}

func (c *call) delay(attempt int) time.Duration {
	most := min(c.pause<<min(attempt, 20), maxPause)
	return most/2 + rand.N(most/2+1)
}

// wait is for what DynamoDB leaves undone without an error.
func (c *call) wait(attempt int) error {
	select {
	case <-time.After(c.delay(attempt)):
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// do makes one request, with tries, within its patience.
func do[In, Out any](ctx context.Context, s *Store, f func(context.Context, In, ...func(*dynamodb.Options)) (Out, error), in In) (Out, error) {
	bounded, cancel := context.WithTimeout(ctx, s.limits.patience)
	defer cancel()
	c := s.call(bounded)
	out, err := f(bounded, in, c.with)
	// Whoever waited in vain learns what for.
	if err != nil && bounded.Err() != nil && ctx.Err() != context.Canceled && c.last != nil {
		err = c.last
	}
	return out, err
}
