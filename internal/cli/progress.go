package cli

import (
	"fmt"
	"sync/atomic"
	"time"
)

// progress is how far a copy is: on a terminal a line that changes, elsewhere a line now and then.
type progress struct {
	f     *frame
	what  string
	total int64 // bytes; zero: not known
	start time.Time
	spin  *spinner
	quit  chan struct{}

	files, bytes atomic.Int64
	look         farness // nil: files and bytes say it
}

// farness asks somebody else how far it is; seen is how many files were looked at before the first is
// copied.
type farness func() (files, bytes, total, seen int64)

// plainEvery is how often a copy is told of where nobody watches.
const plainEvery = 10 * time.Second

// progress begins to show it.
func (f *frame) progress(what string, total int64) *progress {
	return f.shown(&progress{what: what, total: total})
}

// progressOf begins to show what somebody else counts.
func (f *frame) progressOf(what string, look farness) *progress {
	return f.shown(&progress{what: what, look: look})
}

func (f *frame) shown(p *progress) *progress {
	p.f, p.start, p.quit = f, f.now(), make(chan struct{})
	p.spin = f.spinWith(p.what, p.line)
	if p.spin == nil && !f.quiet && !f.json {
		go p.report()
	}
	return p
}

func (p *progress) add(files int, bytes int64) {
	p.files.Add(int64(files))
	p.bytes.Add(bytes)
}

func (p *progress) stop() {
	close(p.quit)
	p.spin.stop()
}

func (p *progress) report() {
	tick := time.NewTicker(plainEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-tick.C:
			p.f.notef("%s%s", p.what, p.line(p.f.now().Sub(p.start)))
		}
	}
}

// line is how far it is: a bar where the end is known, files, bytes and how fast they go.
func (p *progress) line(took time.Duration) string {
	files, bytes, total := p.files.Load(), p.bytes.Load(), p.total
	if p.look != nil {
		var seen int64
		if files, bytes, total, seen = p.look(); files == 0 && bytes == 0 && total == 0 {
			if seen == 0 {
				return ""
			}
			return ": looked at " + plural(int(seen), "file", "files")
		}
	}
	text := fmt.Sprintf(": %s, %s", plural(int(files), "file", "files"), size(bytes))
	if total > 0 {
		text = fmt.Sprintf(" %s %d%%", bar(bytes, total), min(100, 100*bytes/total)) + text
	}
	if seconds := took.Seconds(); seconds >= 0.5 {
		text += ", " + size(int64(float64(bytes)/seconds)) + "/s"
	}
	return text
}

const barWidth = 20

// bar is a picture of a part.
func bar(part, whole int64) string {
	full := int(min(barWidth, barWidth*part/whole))
	picture := []rune("░░░░░░░░░░░░░░░░░░░░")
	for i := range full {
		picture[i] = '█'
	}
	return string(picture)
}
