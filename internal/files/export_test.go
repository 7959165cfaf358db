package files

import "time"

// SetWorkTime changes how long one turn of a removal is.
func SetWorkTime(d time.Duration) (restore func()) {
	was := workTime
	workTime = d
	return func() { workTime = was }
}
