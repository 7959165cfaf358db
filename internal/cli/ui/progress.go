package ui

import (
	"fmt"
	"sync/atomic"
	"time"
)

// progress shows the progress of a copy: as one line that changes on a terminal, otherwise as a new line every
// plainEvery.
type progress struct {
	u     *UI
	what  string
	total int64 // in bytes; zero: unknown
	start time.Time
	spin  *Spinner
	quit  chan struct{}

	files, bytes atomic.Int64
	look         ProgressFunc // returns the progress; nil: use files and bytes
}

// ProgressFunc returns the progress. seen is the number of files that were checked before the first copy.
type ProgressFunc func() (files, bytes, total, seen int64)

// plainEvery is the time between two lines of progress if stderr is not a terminal.
const plainEvery = 10 * time.Second

// Progress shows the progress of a copy of total bytes until Stop. The caller reports it with Add.
func (u *UI) Progress(what string, total int64) *progress {
	return u.startProgress(&progress{what: what, total: total})
}

// ProgressOf shows the progress that look returns, until Stop.
func (u *UI) ProgressOf(what string, look ProgressFunc) *progress {
	return u.startProgress(&progress{what: what, look: look})
}

func (u *UI) startProgress(p *progress) *progress {
	p.u, p.start, p.quit = u, u.Now(), make(chan struct{})
	p.spin = u.spinWith(p.what, p.line)
	if p.spin == nil && !u.Quiet && !u.JSON {
		go p.report()
	}
	return p
}

func (p *progress) Add(files int, bytes int64) {
	p.files.Add(int64(files))
	p.bytes.Add(bytes)
}

func (p *progress) Stop() {
	close(p.quit)
	p.spin.Stop()
}

func (p *progress) report() {
	tick := time.NewTicker(plainEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-tick.C:
			p.u.Notef("%s%s", p.what, p.line(p.u.Now().Sub(p.start)))
		}
	}
}

// line returns the progress as text: a bar if the total is known, files, bytes and bytes per second.
func (p *progress) line(took time.Duration) string {
	files, bytes, total := p.files.Load(), p.bytes.Load(), p.total
	if p.look != nil {
		var seen int64
		if files, bytes, total, seen = p.look(); files == 0 && bytes == 0 && total == 0 {
			if seen == 0 {
				return ""
			}
			return ": looked at " + Plural(int(seen), "file", "files")
		}
	}
	text := fmt.Sprintf(": %s, %s", Plural(int(files), "file", "files"), Size(bytes))
	if total > 0 {
		text = fmt.Sprintf(" %s %d%%", bar(bytes, total), min(100, 100*bytes/total)) + text
	}
	if seconds := took.Seconds(); seconds >= 0.5 {
		text += ", " + Size(int64(float64(bytes)/seconds)) + "/s"
	}
	return text
}

const barWidth = 20

// bar draws the part of the whole as a bar.
func bar(part, whole int64) string {
	full := int(min(barWidth, barWidth*part/whole))
	picture := []rune("░░░░░░░░░░░░░░░░░░░░")
	for i := range full {
		picture[i] = '█'
	}
	return string(picture)
}
