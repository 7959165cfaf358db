package engine

// Options returns what the engine was made with, its defaults filled in.
func (e *Engine) Options() Options { return e.opts }
