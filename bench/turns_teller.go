package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// story is the prompt for the scripted agent, as JSON.
type story struct {
	Every time.Duration `json:"every"` // pause between lines
	Until int64         `json:"until"` // time of the end, in ns since 1970
	Lines int           `json:"lines"` // maximum number of lines; zero: no limit
}

func (s story) String() string {
	text, _ := json.Marshal(s)
	return string(text)
}

// teller is a scripted agent with the output format of Claude Code. It also writes a session file, so that the session
// can be resumed. Each line holds the time at which it was written. The agent is in Perl, because a hundred agents at
// once must not take CPU time from the measurement: in Perl they take a fiftieth of one CPU, in Go half of one.
const teller = `#!/usr/bin/perl
use strict;
for my $i (0 .. $#ARGV - 1) {
    next if $ARGV[$i] ne '--session-id';
    my $dir = '';
    for my $part (split '/', "$ENV{CLAUDE_CONFIG_DIR}/projects/-workspace") { $dir .= "$part/"; mkdir $dir }
    open(my $session, '>', "$dir$ARGV[$i + 1].jsonl") or die $!;
    print $session "{}\n";
    close $session;
}
my $prompt = do { local $/; <STDIN> };
my ($every, $until, $lines) = map { $prompt =~ /"$_":(\d+)/ or die "no story: $prompt\n"; $1 } qw(every until lines);
sub now { my $at = "\0" x 16; syscall(%d, 0, $at); my ($s, $ns) = unpack 'qq', $at; $s * 1_000_000_000 + $ns }
my $next = now();
$| = $every > 0;
print '{"type":"system","subtype":"init","session_id":"bench","model":"bench"}', "\n";
for (my $n = 0; (!$lines || $n < $lines) && now() < $until; $n++) {
    if ($every) {
        my $left = ($next += $every) - now();
        select(undef, undef, undef, $left / 1e9) if $left > 0;
    }
    print '{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"', now(), ' and a few words"}}}', "\n" or exit 1;
}
print '{"type":"result","subtype":"success","is_error":false,"result":"over","modelUsage":{"bench":{"inputTokens":1,"outputTokens":1}}}', "\n";
`

// writeTeller writes the program of the agent to a path.
func writeTeller(path string) error {
	return os.WriteFile(path, fmt.Appendf(nil, teller, syscall.SYS_CLOCK_GETTIME), 0o755)
}

// writtenAt returns the time at which the agent wrote a line. The second result is false for lines without a time.
func writtenAt(line []byte) (time.Time, bool) {
	_, rest, ok := strings.Cut(string(line), `"text":"`)
	if !ok {
		return time.Time{}, false
	}
	stamp, _, _ := strings.Cut(rest, " ")
	ns, err := strconv.ParseInt(stamp, 10, 64)
	return time.Unix(0, ns), err == nil
}
