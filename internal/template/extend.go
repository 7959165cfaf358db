package template

import "reflect"

// over takes from the parent what the template does not say itself. Lists are replaced as a whole;
// environments, services, MCP servers and timers entry by entry.
func (t Template) over(parent Template) Template {
	t = t.clone()
	merge(reflect.ValueOf(&t).Elem(), reflect.ValueOf(parent.clone()))
	return t
}

func merge(to, from reflect.Value) {
	switch {
	case to.Kind() == reflect.Map && !to.IsNil():
		for key, value := range from.Seq2() {
			if !to.MapIndex(key).IsValid() {
				to.SetMapIndex(key, value)
			}
		}
	case consists(to.Type()):
		for i := range to.NumField() {
			merge(to.Field(i), from.Field(i))
		}
	case to.IsZero():
		to.Set(from)
	}
}

// consists reports whether a value of the type has parts that are inherited one by one.
func consists(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[Template](), reflect.TypeFor[Timers](), reflect.TypeFor[Disk]():
		return true
	}
	return false
}
