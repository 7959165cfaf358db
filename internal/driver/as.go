package driver

// As returns d as a T, if the driver has this optional ability. It looks through decorators.
//
// As returns the outermost decorator that implements T, so that its policy also covers the calls of the
// ability. A decorator implements every ability of this package, so As also checks that the driver under
// it has the ability. It skips decorators that do not implement T, so their policies do not apply. T may
// also be the driver's concrete type.
func As[T any](d Driver) (T, bool) {
	ability, offered := d.(T)
	wrapper, wraps := d.(interface{ Unwrap() Driver })
	if !wraps {
		return ability, offered
	}
	inner, found := As[T](wrapper.Unwrap())
	if found && offered {
		return ability, true
	}
	return inner, found
}
