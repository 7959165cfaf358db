# The agent of the runtime's own tests. It does what the prompt says: "say TEXT", "exec COMMAND", or "write PATH" with
# the text on the following lines. It counts the turns of its session in a file.
use strict;
$| = 1;
sub quote {
	my $text = shift;
	$text =~ s/(["\\\x00-\x1f])/sprintf "\\u%04x", ord $1/ge;
	return qq("$text");
}
my $prompt = do { local $/; <STDIN> };
my ($verb, $rest) = $prompt =~ /^(\S+) (.*)$/s;
my $file = "$ENV{BERTH_SESSION_DIR}/turns";
my $turns = 0;
if (open my $in, '<', $file) { $turns = <$in>; }
open my $out, '>', $file or die;
print $out $turns + 1, "\n";
close $out;
my $said = $verb eq 'say' ? $rest : 'done';
if ($verb ne 'say') {
	my ($path, $text) = split /\n/, $rest, 2;
	my $input = $verb eq 'exec' ? '{"command":' . quote($rest) . '}' : '{"path":' . quote($path) . '}';
	print qq({"type":"tool_call","id":"c1","name":"$verb","input":$input}\n);
	my ($result, $failed);
	if ($verb eq 'exec') {
		open my $run, '-|', '/bin/sh', '-c', "exec 2>&1\n$rest";
		$result = do { local $/; <$run> };
		close $run;
		$failed = $? ? 'true' : 'false';
	} else {
		my ($dir) = $path =~ m{^(.*)/};
		system 'mkdir', '-p', $dir if $dir;
		$failed = 'true';
		if (open my $made, '>', $path) { print $made $text; close $made; $failed = 'false'; }
		$result = 'written';
	}
	print '{"type":"tool_result","id":"c1","text":', quote($result), qq(,"is_error":$failed}\n);
}
my $half = int(length($said) / 2);
print '{"type":"delta","text":', quote(substr $said, 0, $half), "}\n";
print '{"type":"delta","text":', quote(substr $said, $half), "}\n";
print '{"type":"text","text":', quote($said), "}\n";
print qq({"type":"usage","input_tokens":11,"output_tokens":7,"model":"perl"}\n);
