package driver

import (
	"errors"
	"fmt"
	"time"
)

// The classes of driver errors. Anything a driver returns that matches none of these counts as
// "cannot say": nothing may be concluded from it.
var (
	// ErrNotFound is the driver's confirmed word that the instance does not exist.
	ErrNotFound = errors.New("instance not found")
	// ErrNotRunning means the operation needs a running instance and this one is not.
	ErrNotRunning = errors.New("instance is not running")
	// ErrUnsupported means this driver can never do it.
	ErrUnsupported = errors.New("not supported by this driver")
	// ErrQuota means the provider refused for want of capacity or quota.
	ErrQuota = errors.New("provider quota exhausted")
	// ErrUnauthenticated means the provider refused our credentials.
	ErrUnauthenticated = errors.New("provider refused the credentials")
	// ErrInvalid means the provider will refuse this request every time.
	ErrInvalid = errors.New("provider refused the request")
)

// ExistsError answers a Create whose Key is already live, or whose sandbox is where the provider
// allows one instance per name: compare Status.Key with the one asked for.
type ExistsError struct{ Status Status }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("instance %s already exists for sandbox %s", e.Status.ID, e.Status.Key.Sandbox)
}

// TransientError is a failure that the same call may not meet again. Whether the call took effect
// is unknown.
type TransientError struct {
	After time.Duration // the provider's own advice, zero if none
	Err   error
}

func (e *TransientError) Error() string {
	if e.Err == nil {
		return "transient failure"
	}
	return e.Err.Error()
}

func (e *TransientError) Unwrap() error { return e.Err }
