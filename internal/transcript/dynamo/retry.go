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

// call is one request with its attempts. It implements the SDK's retryer. It retries temporary failures until the
// context ends.
type call struct {
	*retry.Standard
	pause time.Duration
	ctx   context.Context
	last  error // the error of the last attempt
}

func (s *Store) call(ctx context.Context) *call {
	return &call{ctx: ctx, pause: s.limits.pause, Standard: retry.NewStandard(func(o *retry.StandardOptions) {
		o.RateLimiter = ratelimit.None
	})}
}

// with sets the call as the retryer of an SDK operation.
func (c *call) with(o *dynamodb.Options) { o.Retryer = c }

// MaxAttempts returns 0, no limit: the context limits the attempts.
func (c *call) MaxAttempts() int { return 0 }

// IsErrorRetryable reports whether another attempt is made. It stores the error in last.
func (c *call) IsErrorRetryable(err error) bool {
	if c.ctx.Err() != nil {
		return false
	}
	c.last = err
	var network net.Error
	return c.Standard.IsErrorRetryable(err) || errors.As(err, &network) && network.Timeout()
}

// RetryDelay returns a growing, random delay, so that callers do not retry at the same time.
func (c *call) RetryDelay(attempt int, _ error) (time.Duration, error) {
	return c.delay(attempt), nil
}

func (c *call) delay(attempt int) time.Duration {
	most := min(c.pause<<min(attempt, 20), maxPause)
	return most/2 + rand.N(most/2+1)
}

// wait waits before the next attempt to delete items that DynamoDB has not processed.
func (c *call) wait(attempt int) error {
	select {
	case <-time.After(c.delay(attempt)):
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// do makes one request, with retries, within the store's time limit.
func do[In, Out any](ctx context.Context, s *Store, f func(context.Context, In, ...func(*dynamodb.Options)) (Out, error), in In) (Out, error) {
	bounded, cancel := context.WithTimeout(ctx, s.limits.patience)
	defer cancel()
	c := s.call(bounded)
	out, err := f(bounded, in, c.with)
	// If the time limit ended the call, return the last failure, which says more.
	if err != nil && bounded.Err() != nil && ctx.Err() != context.Canceled && c.last != nil {
		err = c.last
	}
	return out, err
}
