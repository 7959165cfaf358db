package template

import "reflect"

// withParent returns the template with unset fields taken from the parent. Lists are replaced as a whole; environments,
// services, MCP servers and timers are merged by entry.
func (t Template) withParent(parent Template) Template {
	t = t.clone()
	parent.Tenants = nil // the template may add secrets that the parent's tenants must not see
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
	case mergesFields(to.Type()):
		for i := range to.NumField() {
			merge(to.Field(i), from.Field(i))
		}
	case to.IsZero():
		to.Set(from)
	}
}

// mergesFields reports whether the fields of the type are inherited one by one.
func mergesFields(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[Template](), reflect.TypeFor[Timers](), reflect.TypeFor[Disk]():
		return true
	}
	return false
}
