package driver

// As finds the optional ability T of d, through any decorators around it.
//
// What it returns is the outermost decorator, so that its policy covers the ability's calls too; but
// only if the driver at the bottom has the ability: a decorator offers every ability of this package
// and cannot add one. A decorator that does not offer T is passed by, with its policy. T may also be
// a concrete type, to get at the driver itself.
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
