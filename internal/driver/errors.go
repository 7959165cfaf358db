package driver

import (
	"errors"
	"fmt"
	"time"
)

// The classes of driver errors. After an error of another class nothing is known about the instance or
// the effect of the call.
var (
	// ErrNotFound means that the instance does not exist. The driver has verified it.
	ErrNotFound = errors.New("instance not found")
	// ErrNotRunning means that the operation needs a running instance and this one does not run.
	ErrNotRunning = errors.New("instance is not running")
	// ErrUnsupported means that this driver does not have the operation.
	ErrUnsupported = errors.New("not supported by this driver")
	// ErrQuota means that the provider has not enough capacity or quota left.
	ErrQuota = errors.New("provider quota exhausted")
	// ErrUnauthenticated means that the provider refused our credentials.
	ErrUnauthenticated = errors.New("provider refused the credentials")
	// ErrNoDirectory means that files.WorkingDir or files.HomeDir of the instance is not a directory: the user root
	// of the instance has removed or replaced it.
	ErrNoDirectory = errors.New("not a directory: root inside replaced or removed it")
	// ErrInvalid means that the provider will refuse this request every time.
	ErrInvalid = errors.New("provider refused the request")
)

// ExistsError is the error of a Create whose Key belongs to an existing instance. If the provider allows
// one instance for each sandbox, that instance may be another incarnation: compare Status.Key.
type ExistsError struct{ Status Status }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("instance %s already exists for sandbox %s", e.Status.ID, e.Status.Key.Sandbox)
}

// TransientError is a failure after which the same call may succeed later. The failed call may have taken
// effect or not.
type TransientError struct {
	After time.Duration // wait before the next try that the provider asked for; zero: none
	Err   error
}

func (e *TransientError) Error() string {
	if e.Err == nil {
		return "transient failure"
	}
	return e.Err.Error()
}

func (e *TransientError) Unwrap() error { return e.Err }
