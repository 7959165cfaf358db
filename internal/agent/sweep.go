//go:build !seeded_lefttools

package agent

// sweep kills every process that carries a turn's mark, until there is none: agents give their tools sessions
// of their own, which no signal to a process group reaches.
const sweep = `round=0
while [ $round -lt 200 ]; do
	found=
	for dir in /proc/[0-9]*; do
		if tr '\0' '\n' 2>/dev/null <"$dir/environ" | grep -qxF "BERTH_TURN=$1"; then
			kill -9 "${dir#/proc/}" && found=1
		fi
	done
	[ -n "$found" ] || exit 0
	round=$((round + 1))
	sleep 0.02
done
exit 1
`
