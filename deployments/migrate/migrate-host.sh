#!/bin/sh
# Moves a mikan 0.5.3 installation on this host over, unattended: stop the old service, try it dry, import, start the new
# services. Run it as the user that owns the files; run it again after any failure.
#
#   MIKAN_DATABASE_URL=postgres://… SLACK_BOT_TOKEN=… ./migrate-host.sh
#
# Variables: OLD_SERVICE (systemd unit of 0.5.3, default mikan), NEW_SERVICES (default "mikan-gateway mikan-worker"),
# STATE_DIR (default ~/.mikan), WORKSPACE (default $STATE_DIR/workspace), MIKAN (the program, default mikan), REPORT
# (where the steps go as JSON lines, default ./mikan-migrate.jsonl), MIGRATE_FLAGS (for example
# "--owner 123456=telegram --pause-events"), SYSTEMCTL (default systemctl; "true" where there is no systemd).
# The tokens of every platform that 0.5.3 served must be set: they tell whose a conversation is.
#
# Exit codes are those of `mikan migrate`: 0 done, 3 refused and nothing written, 4 done but for broken files, 1 failed
# midway (the services stay down; run it again).
set -u

: "${OLD_SERVICE:=mikan}" "${NEW_SERVICES:=mikan-gateway mikan-worker}" "${STATE_DIR:=$HOME/.mikan}"
: "${MIKAN:=mikan}" "${REPORT:=mikan-migrate.jsonl}" "${MIGRATE_FLAGS:=}" "${SYSTEMCTL:=systemctl}"
: "${WORKSPACE:=$STATE_DIR/workspace}"

migrate() {
	# MIGRATE_FLAGS is a list of words.
	# shellcheck disable=SC2086
	"$MIKAN" migrate --state-dir "$STATE_DIR" --workspace "$WORKSPACE" --json $MIGRATE_FLAGS "$@"
}

echo "trying it dry; nothing is written"
migrate --dry-run >"$REPORT"
code=$?
if [ "$code" -ne 0 ] && [ "$code" -ne 4 ]; then
	echo "it cannot be moved as it is; see the lines with \"step\":\"problem\" in $REPORT" >&2
	exit "$code"
fi

# The old one must not write while it is moved, and must not come back beside the new one.
"$SYSTEMCTL" disable --now "$OLD_SERVICE" || exit 1

migrate >"$REPORT"
code=$?
case "$code" in
0) echo "done; the report is in $REPORT, the originals are in $STATE_DIR/conversations/*/sessions-v3" ;;
4) echo "done but for broken files; see the lines with \"step\":\"problem\" in $REPORT" >&2 ;;
3)
	# Something changed since the dry run; nothing was written, so the old one can go on.
	echo "refused; see $REPORT. The old service is started again" >&2
	"$SYSTEMCTL" enable --now "$OLD_SERVICE"
	exit 3
	;;
*)
	echo "failed midway; what was imported stays. Run this script again" >&2
	exit "$code"
	;;
esac

for service in $NEW_SERVICES; do
	"$SYSTEMCTL" enable --now "$service" || exit 1
done
exit "$code"
