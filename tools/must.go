package tools

// Must returns v, and panics if err is not nil. It is for tools and registries
// that a program makes of constants when it starts, such as
//
//	var registry = tools.Must(tools.NewRegistry(tools.Must(tools.New(def, send))))
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
