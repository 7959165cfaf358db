package engine

import (
	"context"
	"errors"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
)

// guestCodes maps errors of helpers to codes.
var guestCodes = []struct {
	is   error
	code api.Code
}{
	{guest.ErrGone, api.CodeNotRunning},
	{guest.ErrNoProcess, api.CodeNoSuchExec},
	{guest.ErrExists, api.CodeExecExists},
	{guest.ErrTrimmed, api.CodeOutputTrimmed},
	{guest.ErrInvalid, api.CodeInvalidRequest},
	{guest.ErrNoInput, api.CodeConflict},
	{guest.ErrRefused, api.CodePortUnreachable},
	{guest.ErrDiskFull, api.CodeDiskFull},
}

// WrapGuest returns an Error with a code for an error of a sandbox's helper. It returns errors that have a code, and
// errors of a context, unchanged.
func WrapGuest(op string, err error) error {
	if err == nil || errors.As(err, new(*fault.Error)) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	for _, g := range guestCodes {
		if errors.Is(err, g.is) {
			return fault.Errorf(op, g.code, "%w", err)
		}
	}
	return fault.Errorf(op, api.CodeDriverUnreachable, "%w", err)
}
