# shellcheck shell=bash
# shellcheck disable=SC2154 # bats sets status and output
# What all bats files share: a world for one test, and what must hold after
# each run. The Go test sets USERDATA, SERVER, TEST_SHELL and REAL_CURL.

PROGRAMS='curl dnf ip kubeadm modprobe rpm sleep swapoff sysctl systemctl wg wg-quick'

setup_world() {
	export WORLD=$BATS_TEST_TMPDIR/world DYNK8S_ROOT=$BATS_TEST_TMPDIR/root
	mkdir -p "$WORLD"/{answers,knobs,state,bin} "$DYNK8S_ROOT"/{proc,etc/dynk8s}
	echo 1000.00 0.00 >"$DYNK8S_ROOT/proc/uptime"
	printf 'Filename Type\n' >"$DYNK8S_ROOT/proc/swaps"
	local program
	for program in $PROGRAMS; do
		cp "$BATS_TEST_DIRNAME/programs.sh" "$WORLD/bin/$program"
		# busybox has programs of its own that come before PATH, but not this.
		[ "$program" = wg-quick ] || printf '%s() { command %s/%s "$@"; }\n' "$program" "$WORLD/bin" "$program"
	done >"$WORLD/functions"
	export PATH=$WORLD/bin:$PATH
	printf 'NAME="Fedora Linux"\nID=fedora\nVERSION_ID=43\n' >"$DYNK8S_ROOT/etc/os-release"
	: >"$WORLD/calls"
	: >"$WORLD/leaks"
}

# start_server starts IMDS and the endpoint and writes join.env. The server ends
# with the fifo's last writer, that is with this test.
start_server() {
	[ -p "$WORLD/alive" ] || mkfifo "$WORLD/alive"
	exec 7<>"$WORLD/alive"
	"$SERVER" serve "$WORLD" <&7 >"$WORLD/server.log" 2>&1 3>&- &
	SERVER_PID=$!
	local tries
	for ((tries = 0; tries < 300; tries++)); do
		[ ! -e "$WORLD/ports" ] || break
		/bin/sleep 0.05
	done
	read -r IMDS_PORT ENDPOINT_PORT <"$WORLD/ports"
	settings "DYNK8S_ENDPOINT=https://127.0.0.1:$ENDPOINT_PORT" "DYNK8S_CA_FILE=/etc/dynk8s/ca.pem" \
		"DYNK8S_IMDS=http://127.0.0.1:$IMDS_PORT"
	cp "$WORLD/ca.pem" "$DYNK8S_ROOT/etc/dynk8s/ca.pem"
}

stop_server() {
	[ -z "${SERVER_PID:-}" ] || kill "$SERVER_PID"
	SERVER_PID=
}

# settings LINE …: makes them join.env.
settings() { printf '%s\n' "$@" >"$DYNK8S_ROOT/etc/dynk8s/join.env"; }
# setting LINE …: adds them.
setting() { printf '%s\n' "$@" >>"$DYNK8S_ROOT/etc/dynk8s/join.env"; }
# answers NAME LINE …: how a resource answers.
answers() {
	local name=$1
	shift
	printf '%s\n' "$@" >"$WORLD/answers/$name"
}
knob() { echo "${2:-}" >"$WORLD/knobs/$1"; }
no_knobs() { rm -f "$WORLD"/knobs/* "$WORLD"/answers/*; }

# node LINE …: makes them node.env.
node() { printf '%s\n' "$@" >"$DYNK8S_ROOT/etc/dynk8s/node.env"; }
# machine_files prints a digest of all that the scripts could change.
machine_files() { find "$DYNK8S_ROOT/etc" -type f -printf '%p %m ' -exec sha256sum {} \; | sort; }
# changes_nothing SCRIPT …: a run that leaves files and services as they are.
changes_nothing() {
	local before
	before=$(machine_files)
	: >"$WORLD/calls"
	script "$@"
	ends_with 0
	[ "$before" = "$(machine_files)" ] || fail "files changed"
	if grep -E '^(dnf|swapoff|kubeadm) |^systemctl .*(restart|enable|start|stop|reload) ' "$WORLD/calls"; then
		fail "it did something"
	fi
}

# script PROGRAM ARGUMENT …: runs a script of userdata in a process group of its
# own; sets status and output, as run does, and looks for secrets in all output.
script() {
	local file=$USERDATA/$1
	shift
	cat >"$WORLD/run" <<-END
		echo \$\$ >"$WORLD/pid"
		case "$TEST_SHELL" in busybox*) . "$WORLD/functions" ;; esac
		. "$file"
	END
	# shellcheck disable=SC2086 # a shell and its options
	run setsid --wait $TEST_SHELL ${TRACE:-} "$WORLD/run" "$@"
	printf '%s\n' "$output" >>"$WORLD/output"
	no_secret_seen
}

no_secret_seen() {
	local secret
	for secret in "$WORLD"/secrets/*; do
		[ -e "$secret" ] || continue
		if grep -qF -- "$(head -1 "$secret")" "$WORLD/output" "$WORLD/calls"; then
			fail "${secret##*/} was seen"
		fi
	done
	[ ! -s "$WORLD/leaks" ] || fail "$(cat "$WORLD/leaks")"
}

fail() {
	printf '%s\n' "$*" "status: ${status:-}" "output:" "${output:-}" >&2
	return 1
}

ends_with() { [ "$status" = "$1" ] || fail "it ended with $status, not $1"; }
says() { [[ $output == *"$1"* ]] || fail "it did not say: $1"; }
does_not_say() { [[ $output != *"$1"* ]] || fail "it said: $1"; }
called() { grep -q -- "$1" "$WORLD/calls" || fail "not called: $1"; }
not_called() { ! grep -q -- "$1" "$WORLD/calls" || fail "called: $1"; }
asked() { grep -c " $1" "$WORLD/requests"; }

# reboot: what is only in memory is gone, and systemd starts what is enabled.
reboot() {
	rm -rf "$DYNK8S_ROOT/run" "$WORLD/state/link" "$WORLD/state/unit" "$WORLD"/state/active-*
	[ ! -s "$DYNK8S_ROOT/etc/wireguard/dynk8s.conf" ] || [ ! -e "$WORLD/state/tunnel-enabled" ] ||
		systemctl start wg-quick@dynk8s.service
}

# anew: the machine as it was before its first boot.
anew() {
	rm -rf "${DYNK8S_ROOT:?}"/{etc/kubernetes,etc/wireguard,var} "$WORLD"/answers/*
	reboot
}

# secret_files prints the files of the machine that hold a secret.
secret_files() {
	local secret
	for secret in "$WORLD"/secrets/*; do
		grep -rlF -- "$(head -1 "$secret")" "$DYNK8S_ROOT" || true
	done | sort -u
}

# only_the_key: no secret is on the machine but, perhaps, the key that was given.
only_the_key() {
	if secret_files | grep -qv '/etc/wireguard/dynk8s.conf$'; then fail "secrets are left: $(secret_files)"; fi
}

# joined: the end that every story must have.
joined() {
	ends_with 0
	[ "$(cat "$DYNK8S_ROOT/etc/kubernetes/kubelet.conf")" = "${1:-joined}" ] || fail "no kubelet.conf"
	[ "$(secret_files)" = "$DYNK8S_ROOT/etc/wireguard/dynk8s.conf" ] || fail "secrets are left: $(secret_files)"
	[ "$(stat -c %a "$DYNK8S_ROOT/etc/wireguard/dynk8s.conf")" = 600 ] || fail "others may read the key"
	cmp "$WORLD/body/wireguard" "$DYNK8S_ROOT/etc/wireguard/dynk8s.conf"
	[ -e "$WORLD/state/link" ] || fail "no tunnel"
	[ -e "$WORLD/state/tunnel-enabled" ] || fail "the tunnel would not come at the next boot"
	[ -z "$(find "$DYNK8S_ROOT" -name '.dynk8s-join*')" ] || fail "temporary files are left"
}
