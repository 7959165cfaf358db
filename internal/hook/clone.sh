# Brings BERTH_REPOSITORY at BERTH_REF into the workspace, if that is empty. The clone is made beside it and
# moved in when it is complete, .git last: what was cut off in the middle is finished by the next start.
set -u
workspace=$PWD
there=$HOME/.berth-clone
fail() { echo "$*" >&2; exit 1; }

if [ ! -d "$there.complete" ]; then
	for entry in "$workspace"/* "$workspace"/.[!.]* "$workspace"/..?*; do
		case "${entry##*/}" in
		.sandbox-state* | .berth) continue ;;
		esac
		if [ -e "$entry" ] || [ -L "$entry" ]; then
			exit 0
		fi
	done
	command -v git >/dev/null || fail "git is not in the template's base; build one that has it: berth template build-base NAME --include git,ca-certificates"
	rm -rf "$there"
	export GIT_ALLOW_PROTOCOL=https:http:git GIT_TERMINAL_PROMPT=0
	git clone --quiet --no-checkout -- "$BERTH_REPOSITORY" "$there" || fail "clone $BERTH_REPOSITORY: git failed"
	cd "$there" || exit 1
	if [ -z "$BERTH_REF" ]; then
		# A repository without a commit has nothing to check out.
		git rev-parse --quiet --verify HEAD >/dev/null && { git checkout --quiet || fail "check out: git failed"; }
	elif ! git checkout --quiet "$BERTH_REF" -- 2>/dev/null; then
		git fetch --quiet origin "$BERTH_REF" && git checkout --quiet FETCH_HEAD -- ||
			fail "$BERTH_REPOSITORY has no branch, tag or commit $BERTH_REF"
	fi
	mkdir -p .git/info && printf '/.sandbox-state*\n/.berth/\n' >>.git/info/exclude # Berth's, and no work of anybody
	mv "$there" "$there.complete" || exit 1
fi
cd "$there.complete" || exit 1
for entry in * .[!.]* ..?*; do
	case "$entry" in
	.git) continue ;;
	.sandbox-state* | .berth) rm -rf "$entry" && continue ;; # these names are Berth's
	esac
	if [ -e "$entry" ] || [ -L "$entry" ]; then
		mv "$entry" "$workspace/" || exit 1
	fi
done
mv .git "$workspace/" && cd / && rmdir "$there.complete"
